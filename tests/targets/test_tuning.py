"""The ranking from Python, for a framework by its name."""

import json
from dataclasses import replace
from math import isfinite

import pytest

import evenflow
from evenflow.errors import InputError
from evenflow.predict.training import Software
from evenflow.predict.transformer import Experts
from evenflow.schedule import FAMILIES
from evenflow.targets import tuning
from evenflow.targets.registry import target_named
from evenflow.targets.tuning import for_framework
from evenflow.tune.axes import Axis
from evenflow.tune.bounds import StepBounds
from evenflow.tune.candidate import Pricing
from evenflow.tune.space import space_of
from tests.predict.trainings import DEVICE, LLAMA
from tests.tune.questions import device_of
from tests.tune.rankings import QUESTION, ranking

ASKED = {"devices": 4, "global_batch": 8, "sequence": 1024}
CONFIG = {
    "model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 8,
    "num_key_value_heads": 4, "intermediate_size": 4096, "vocab_size": 32000,
}  # fmt: skip


@pytest.fixture
def asked(monkeypatch):
    """The questions that are searched, none of which is."""
    found = []

    def answer(question, **limits):
        found.append((question, limits))
        return ranking(question=question)

    monkeypatch.setattr(tuning, "search", answer)
    return found


def test_a_model_may_be_given_in_four_ways(tmp_path, asked):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    for model in (LLAMA, CONFIG, tmp_path, str(tmp_path / "config.json")):
        evenflow.tune(model, DEVICE, **ASKED)
    models = [question.model for question, _limits in asked]
    assert models[0] == LLAMA
    assert [replace(model, name="") for model in models[1:]] == [replace(models[1], name="")] * 3
    assert (models[1].layers, models[1].hidden, models[1].vocabulary) == (8, 1024, 32000)


def test_everything_that_is_given_is_in_the_question(asked):
    software = Software(captured_graphs=True)
    tuned = evenflow.tune(
        LLAMA,
        "h100",
        **ASKED,
        devices_per_node=4,
        memory_limit_bytes=2**33,
        precision="fp8",
        target="megatron",
        software=software,
        fixed={"tensor": 2, "schedule": "interleaved"},
        most={"context": 1},
        recompute="full",
        rows=3,
        time_limit_s=5.0,
    )
    question, limits = asked[0]
    assert tuned.best is tuned.ranked[0]
    assert (question.topology.accelerator.name, question.topology.domain_devices) == ("h100", 4)
    assert (question.devices, question.global_batch, question.sequence) == (4, 8, 1024)
    assert (question.memory_limit_bytes, question.precision, question.recompute) == (2**33, "fp8", "full")
    assert (question.title, question.software, question.schedules) == ("Megatron-LM", software, ("interleaved",))
    assert question.fixed == {Axis.TENSOR: 2, Axis.SCHEDULE: "interleaved"}
    assert question.most == {Axis.CONTEXT: 1}
    assert (limits["rows"], limits["time_limit_s"]) == (3, 5.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": "megatrn"}, "did you mean megatron?"),
        ({"fixed": {"tensr": 2}}, "must be one of tensor, context"),
        ({"most": {"chunk": 2}}, "must be one of tensor, context"),
        ({"devices": 0}, "devices must be an integer from 1"),
        ({"schedules": ["1f1"]}, "must be one of"),
        ({"fixed": {"schedule": "1f1"}}, "must be one of"),
        ({"recompute": "some"}, "recompute must be one of none, select, full"),
        ({"memory_limit_bytes": 0}, "memory_limit_bytes must be"),
        ({"time_limit_s": -1}, "time_limit_s must be"),
        ({"rows": 0}, "rows must be an integer from 1"),
    ],
)
def test_what_cannot_be(changes, message):
    with pytest.raises(InputError) as caught:
        evenflow.tune(LLAMA, DEVICE, **{**ASKED, **changes})
    assert message in str(caught.value)


def test_what_a_framework_does_is_its_own_unless_it_is_said():
    for name in ("megatron", "torchtitan"):
        target = target_named(name)
        question = for_framework(QUESTION, target, None)
        assert question.software == target.software(QUESTION.precision)
        rules = target.degree_rules(target.versions[-1])
        assert question.rules.shardings == rules.shardings
        assert [rule.axis for rule in question.rules.rules] == [rule.axis for rule in rules.rules]
        assert question.abilities is not None
        assert question.abilities.schedules == target.abilities(target.versions[-1]).schedules
    assert for_framework(QUESTION, None, None) == QUESTION


def test_pairs_are_for_experts_on_several_devices_and_frameworks_that_have_them():
    experts = replace(QUESTION.model, experts=Experts(count=4, active=2, ffn=1024))
    question = replace(QUESTION, model=experts, schedules=("1f1b", "interleaved-overlap"))
    legal = space_of(for_framework(question, target_named("megatron"), None)).legal
    paired = [training for training in legal if training.schedule in ("1f1b-overlap", "interleaved-overlap")]
    assert {training.schedule for training in paired if training.degrees.pipeline > 1} == {"interleaved-overlap"}
    assert {training.schedule for training in paired if training.degrees.pipeline == 1} == {"1f1b-overlap"}
    assert all(training.degrees.expert > 1 for training in paired)
    assert {training.schedule for training in legal if training not in paired} == {"1f1b"}
    assert for_framework(question, target_named("torchtitan"), None).schedules == ("1f1b",)
    further = replace(question, model=replace(experts, predicted_tokens=2))
    legal = space_of(for_framework(further, target_named("megatron"), None)).legal
    assert not [training for training in legal if training.schedule == "interleaved-overlap"]


@pytest.mark.parametrize(
    ("name", "paired"),
    [
        ("megatron", {"1f1b-overlap", "interleaved-overlap"}),
        ("mindspeed", {"1f1b-overlap", "interleaved-overlap"}),
        ("mindformers-pynative", set()),  # it has them for some cuts alone, which `tune` refuses
        ("torchtitan", set()),
    ],
)
def test_pairs_are_tried_where_layers_exchange_tokens_and_the_framework_has_them(name, paired):
    experts = replace(QUESTION.model, experts=Experts(count=4, active=2, ffn=1024))
    for model, expected in ((experts, paired), (QUESTION.model, set())):
        question = for_framework(replace(QUESTION, model=model), target_named(name), None)
        assert {schedule for schedule in question.schedules if FAMILIES[schedule].has_pairs} == expected
        assert set(question.schedules) > expected


def test_a_layer_in_every_cell_is_asked_for_where_the_framework_needs_it():
    """MindSpeed needs it beside pairs alone: without them its cells may be empty, whatever else is tried."""
    experts = replace(QUESTION.model, experts=Experts(count=4, active=2, ffn=1024))
    question = for_framework(replace(QUESTION, model=experts, allow_empty=True), target_named("mindspeed"), None)
    assert question.allow_empty
    pricing = Pricing(question=question)
    assert {training.schedule for training in space_of(question).legal if pricing.request(training).allow_empty} == {
        "1f1b",
        "interleaved",
    }
    layers = experts.layers
    for training in space_of(question).legal:
        if training.schedule == "interleaved-overlap":
            assert training.degrees.pipeline * training.degrees.chunks <= layers
    alone = for_framework(question, target_named("mindspeed"), None, schedules=["interleaved-overlap"])
    assert not alone.allow_empty


def test_bounds_know_what_may_not_be_computed_again_beside_pairs():
    """Megatron-LM computes no whole layers again there: what fits with that alone does not fit in pairs."""
    experts = replace(QUESTION.model, experts=Experts(count=4, active=2, ffn=1024))
    question = for_framework(replace(QUESTION, model=experts), target_named("megatron"), None)
    paired = next(training for training in space_of(question).legal if training.schedule == "interleaved-overlap")
    plain = replace(paired, schedule="interleaved")
    fitting = []
    for number in range(24, 56):
        bounds = StepBounds(pricing=Pricing(question=replace(question, memory_limit_bytes=device_of(number / 32))))
        fitting.append((isfinite(bounds.step_ns(plain)), isfinite(bounds.step_ns(paired))))
    assert (True, False) in fitting
    assert (True, True) in fitting


@pytest.mark.parametrize("name", ["megatron", "torchtitan", "deepspeed"])
def test_further_tokens_beside_the_loss_leave_pipelines_to_every_framework(name):
    counts = []
    for predicted in (0, 1):
        model = replace(QUESTION.model, predicted_tokens=predicted)
        question = replace(QUESTION, model=model, schedules=("1f1b",), fixed={})
        legal = space_of(for_framework(question, target_named(name), None)).legal
        counts.append(sum(training.degrees.pipeline > 1 for training in legal))
    assert counts[0] == counts[1] > 0


def test_schedules_are_those_that_the_framework_runs():
    megatron = target_named("megatron")
    assert for_framework(QUESTION, megatron, None).schedules == ("1f1b", "interleaved")
    assert for_framework(QUESTION, megatron, None, schedules=("interleaved",)).schedules == ("interleaved",)
    assert for_framework(QUESTION, None, None).schedules == QUESTION.schedules
    fixed = replace(QUESTION, fixed={Axis.SCHEDULE: "zbv"})
    assert for_framework(fixed, None, None).schedules == ("zbv",)


@pytest.mark.parametrize("sets", [[["moe_act", "layernorm"], ["layernorm"], ["layernorm", "moe_act"]], "best"])
def test_sets_of_modules_are_kinds(asked, sets):
    evenflow.tune(LLAMA, "h100", **ASKED, recompute_sets=sets)
    found = asked[0][0].recompute_sets
    assert any("layernorm" in modules for modules in found)
    assert len(found) == len(set(found))
    if sets != "best":
        assert found == (("layernorm", "moe_act"), ("layernorm",))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"recompute_sets": [["layernrom"]]}, "recompute_sets must be some of core_attn"),
        ({"recompute_sets": "all"}, "recompute_sets must be sets of modules, or best, got 'all'"),
        ({"recompute_sets": "best", "recompute": "full"}, "recompute_sets must not be given beside recompute"),
        ({"recompute_sets": [["offload_core_attn"]]}, "recompute_sets must be computed again"),
        ({"recompute_sets": [["layernorm"]], "target": "torchtitan"}, "the framework can compute again or move"),
    ],
)
def test_sets_that_cannot_be_tuned_with(more, message):
    with pytest.raises(InputError, match=message):
        evenflow.tune(LLAMA, "h100", **ASKED, **more)


def test_frameworks_without_an_optimizer_on_the_host_refuse_one(asked):
    on_host = {**ASKED, "optimizer_offload": 0.5, "host_link_bytes_per_s": 10**10}
    evenflow.tune(LLAMA, DEVICE, target="megatron", **on_host)
    (question, _limits) = asked[-1]
    assert question.offloads == (0.0, 0.5)
    with pytest.raises(InputError, match="optimizer_offload must be 0 for torchtitan"):
        evenflow.tune(LLAMA, DEVICE, target="torchtitan", **on_host)
    with pytest.raises(InputError, match="optimizer_offload must come with host_link"):
        evenflow.tune(LLAMA, DEVICE, **ASKED, optimizer_offload=0.5)
