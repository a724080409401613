"""Exchanges of tokens that are stated to overlap hide what forwards save beside backwards of the same layers."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cluster import accelerator_named
from evenflow.cluster.topology import Topology
from evenflow.fields import as_fields
from evenflow.model import PassHalves, saved_by_exchange, saved_ns
from evenflow.predict.prediction import Prediction, predict
from evenflow.predict.step_network import priced_network
from evenflow.predict.training import Degrees, Software, Training
from evenflow.predict.work import Spent
from evenflow.profiles.transformer.config_file import transformer_of_config

CONFIG = {
    "model_type": "qwen3_moe", "hidden_size": 4096, "intermediate_size": 12288, "moe_intermediate_size": 1536,
    "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 8, "num_attention_heads": 64,
    "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 32000,
}  # fmt: skip
TOPOLOGY = Topology.of(accelerator_named("h100"))
COUNT = 32
"""Microbatches."""


def training(
    schedule: str | None = None, *, overlaps: bool = False, pipeline: int = 1, deepep: bool = True
) -> Training:
    model = transformer_of_config(as_fields(CONFIG, file="small")).model
    return Training(
        model=model, degrees=Degrees(data=32, expert=32, pipeline=pipeline), microbatch=1, global_batch=32 * COUNT,
        sequence=4096, schedule=schedule, software=Software(overlaps_experts=overlaps, sends_tokens_once=deepep),
    )  # fmt: skip


def experts_of(prediction: Prediction) -> tuple[float, float]:
    """Time in which tokens travel, exposed and hidden."""
    (part,) = [part for part in prediction.parts if part.name == Spent.EXPERT]
    return part.exposed_ns, part.hidden_ns


times_ns = st.integers(0, 10**6)
halves = st.builds(PassHalves, dispatch_ns=times_ns, mlp_ns=times_ns, combine_ns=times_ns)


@given(halves, times_ns, halves, times_ns, st.floats(0, 1), st.floats(1, 2))
def test_what_is_saved_is_owed_to_exchanges_none_of_which_is_shorter(
    forward: PassHalves, more_ns: int, backward: PassHalves, further_ns: int, share: float, slowdown: float
) -> None:
    backward = replace(backward, mlp_weight_ns=int(share * backward.mlp_ns))
    passes = forward, forward.total_ns + more_ns, backward, backward.total_ns + further_ns
    ahead, back = saved_by_exchange(*passes, slowdown=slowdown)
    assert sum(ahead) + sum(back) == saved_ns(*passes, slowdown=slowdown)
    # Of windows each is rounded down, the two of delayed weights together.
    assert all(
        0 <= saved <= most for saved, most in zip(back, (backward.dispatch_ns, backward.combine_ns), strict=True)
    )
    assert all(
        0 <= saved <= most + 1 for saved, most in zip(ahead, (forward.dispatch_ns, forward.combine_ns), strict=True)
    )


@pytest.mark.parametrize("deepep", [True, False])
def test_layers_are_as_much_shorter_as_their_pairs(deepep: bool) -> None:
    alone, beside = (priced_network(training(overlaps=each, deepep=deepep), TOPOLOGY) for each in (False, True))
    layer, shorter = alone.network.layers[0], beside.network.layers[0]
    assert layer.halves is not None
    pair = layer.halves.forward, layer.forward_ns, layer.halves.backward, layer.backward_ns
    saved = layer.forward_ns + layer.backward_ns - shorter.forward_ns - shorter.backward_ns
    assert saved == pytest.approx(saved_ns(*pair, slowdown=alone.network.pair_slowdown), abs=4)


@pytest.mark.parametrize("deepep", [True, False])
def test_on_one_rank_all_but_one_microbatch_hide_what_the_overlap_says(deepep: bool) -> None:
    plain, paired, stated = (
        predict(case, TOPOLOGY)
        for case in (
            training("1f1b", deepep=deepep),
            training("1f1b-overlap", deepep=deepep),
            training("1f1b", overlaps=True, deepep=deepep),
        )
    )  # fmt: skip
    by_pairs, by_overlap = plain.step_ns - paired.step_ns, plain.step_ns - stated.step_ns
    assert by_pairs == pytest.approx(by_overlap * (COUNT - 1) / COUNT, rel=1e-4)


@pytest.mark.parametrize("pipeline", [1, 4])
def test_pairs_hide_expert_traffic_and_change_no_other_part(pipeline: int) -> None:
    plain, paired = (predict(training(name, pipeline=pipeline), TOPOLOGY) for name in ("1f1b", "1f1b-overlap"))
    exposed, hidden = experts_of(paired)
    assert hidden > 0
    assert exposed > 0
    if pipeline == 1:  # the rank that waits least is the same
        assert exposed + hidden == pytest.approx(sum(experts_of(plain)), rel=1e-6)
        computed = (Spent.PRODUCTS, Spent.ATTENTION, Spent.OTHER)
        for mine, theirs in zip(paired.parts, plain.parts, strict=True):
            if mine.name in computed:
                assert mine.exposed_ns == pytest.approx(theirs.exposed_ns, rel=1e-6)
    assert sum(part.exposed_ns for part in paired.parts) == pytest.approx(paired.step_ns)


def test_schedules_with_pairs_hide_no_exchange_twice() -> None:
    alone, stated = (predict(training("1f1b-overlap", overlaps=each, pipeline=4), TOPOLOGY) for each in (False, True))
    assert stated.step_ns == alone.step_ns


def test_repeated_exchanges_hide_under_nothing() -> None:
    alone, stated = (priced_network(training(overlaps=each), TOPOLOGY).layers[0] for each in (False, True))
    assert stated.recomputed["full"].exposed == alone.recomputed["full"].exposed


slowdowns = st.floats(1, 3)


def slowed(slowdown: float) -> Topology:
    device = TOPOLOGY.accelerator
    return replace(TOPOLOGY, accelerator=replace(device, reached=replace(device.reached, pair_slowdown=slowdown)))


@given(slowdowns, st.booleans())
def test_no_more_is_hidden_than_travels_and_no_more_than_a_window_computes(slowdown: float, deepep: bool) -> None:
    alone, beside = (
        priced_network(training(overlaps=each, deepep=deepep), slowed(slowdown)).layers[0] for each in (False, True)
    )
    for before, after in ((alone.forward, beside.forward), (alone.backward["none"], beside.backward["none"])):
        travels = before.exposed[Spent.EXPERT]
        hidden = after.hidden[Spent.EXPERT]
        assert 0 < hidden <= travels * (1 + 1e-9)
        computed = before.total_ns - travels + alone.backward["none"].total_ns
        assert hidden <= slowdown * computed
        assert after.total_ns == pytest.approx(before.total_ns - hidden / slowdown)


@given(slowdowns, slowdowns, st.booleans())
def test_more_contention_never_shortens_a_step(one: float, other: float, deepep: bool) -> None:
    case = training("1f1b", overlaps=True, deepep=deepep)
    less, more = (predict(case, slowed(slowdown)).step_ns for slowdown in sorted((one, other)))
    assert less <= more + 2 * COUNT * 8  # layers are rounded


@given(slowdowns)
def test_without_exchanges_nothing_changes(slowdown: float) -> None:
    def on_one_device(*, overlaps: bool, deepep: bool) -> Training:
        case = training("1f1b", overlaps=overlaps, deepep=deepep)
        return replace(case, degrees=Degrees(data=32, expert=1))

    usual = predict(on_one_device(overlaps=False, deepep=False), TOPOLOGY)
    assert predict(on_one_device(overlaps=True, deepep=True), slowed(slowdown)).step_ns == usual.step_ns


def test_what_is_beside_no_exchange_is_as_long_whatever_the_slowdown_of_pairs() -> None:
    case = training("1f1b")
    assert predict(case, slowed(2.0)).step_ns == predict(case, TOPOLOGY).step_ns
