"""Hybrid models of Megatron-Bridge: patterns read, cut, written as overrides, edited in YAML and scripts, refused."""

import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import FULL, Plan, Sizes
from evenflow.model.plan import cells
from evenflow.predict.training import Degrees
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.profiles.yaml_values import load_document
from evenflow.targets.frameworks.megatron_bridge_hybrid.target import TARGET
from evenflow.targets.megatron_family.hybrid_pattern import SYMBOLS, parse_pattern
from evenflow.targets.refusal import refusal
from evenflow.targets.registry import all_targets
from evenflow.targets.target import GivenSizes
from tests.targets.pages import page_of

YAML = """\
# the recipe of Nemotron 3 Nano
model:
  hybrid_layer_pattern: "{pattern}"  # mine
  pipeline_model_parallel_size: {ranks}
{more}
train:
  micro_batch_size: 1
  global_batch_size: 8
"""
SCRIPT = """\
PATTERN='{pattern}'
torchrun --nproc_per_node {ranks} run_recipe.py --recipe nemotron_3_nano train.micro_batch_size=1 \\
    train.global_batch_size=8 "model.hybrid_layer_pattern='$PATTERN'" model.pipeline_model_parallel_size={ranks}
"""
PLAN = Plan(schedule="1f1b", num_microbatches=8, layers=((2, 4),), recompute={FULL: ((1, 1),)})


GIVEN = GivenSizes(num_microbatches=8)


def read(pattern, ranks=2, more="", **sizes):
    return TARGET.read(YAML.format(pattern=pattern, ranks=ranks, more=more), "run.yaml", replace(GIVEN, **sizes)).plan


def test_bars_are_the_ends_of_stages():
    assert read("M-M|*E").layers == ((3, 2),)
    assert read("M-M-|M*-M").layers == ((4, 4),)
    assert read("M-M-M*-M").layers == ((4, 4),), "without bars all ranks have equally many"
    assert read("M-M-M*-M", more="  num_layers_in_first_pipeline_stage: 3").layers == ((3, 5),)


def test_blocks_for_further_tokens_have_a_field_of_their_own():
    assert read("M-M|*-M/*-", mtp_layers=1).layers == ((3, 4),)
    more = "  mtp_num_layers: 2\n  mtp_hybrid_override_pattern: '*E'"
    assert read("M-M|*-M", more=more, mtp_layers=2).layers == ((3, 5),)
    unknown = TARGET.read(YAML.format(pattern="M-M|*-M", ranks=2, more=more), "run.yaml", GIVEN).unknown
    assert unknown == ()


@pytest.mark.parametrize(
    ("pattern", "more", "message"),
    [
        ("M-X", "", "must have symbols of layers, which are M G"),
        ("M-|M-|M*|M*", "", "hybrid_layer_pattern must have a stage for each of the 2 ranks, got 4"),
        ("M-|M-", "  pipeline_model_parallel_layout: Et|tL", "must not be given beside a pattern of layers"),
        ("M-|M-", "  num_layers_in_first_pipeline_stage: 1", "must not be given beside a pattern of layers"),
        ("M-|M-", "  hybrid_override_pattern: M-", "must not be given beside hybrid_layer_pattern"),
        ("M-M", "", "must leave equally many layers to 2 ranks"),
    ],
)
def test_what_no_run_takes_is_refused(pattern, more, message):
    with pytest.raises(InputError, match=message):
        read(pattern, more=more)


def test_without_a_pattern_nothing_is_known_of_the_layers():
    text = "model:\n  pipeline_model_parallel_size: 2\n"
    assert not TARGET.recognise(text, "run.yaml")
    for ask in (lambda: TARGET.read(text, "run.yaml", GIVEN), lambda: TARGET.apply(text, "run.yaml", PLAN)):
        with pytest.raises(InputError, match="hybrid_layer_pattern must be given"):
            ask()


def test_the_name_before_0_4_is_of_equal_stages():
    text = YAML.format(pattern="M-M*E-", ranks=2, more="").replace("layer_pattern", "override_pattern")
    assert TARGET.version_of(text, "run.yaml") == "0.3"
    assert TARGET.version_of(YAML.format(pattern="M-M*E-", ranks=2, more=""), "run.yaml") == "0.4"
    assert TARGET.read(text, "run.yaml", GIVEN).plan.layers == ((3, 3),)
    even = Plan(schedule="1f1b", num_microbatches=8, layers=((2, 2, 2),))
    edited = TARGET.apply(text, "run.yaml", even)
    assert 'hybrid_override_pattern: "M-M*E-"  # mine' in edited
    assert "pipeline_model_parallel_size: 3" in edited
    with pytest.raises(InputError, match=r"must have no bars: they need hybrid_layer_pattern, from version 0\.4 on"):
        TARGET.read(text.replace("M-M*E-", "M-M|*E-"), "run.yaml", GIVEN)


def test_a_version_without_bars_has_equal_stages_alone():
    old, new = TARGET.abilities("0.3"), TARGET.abilities("0.4")
    assert old.own_cut is not None
    assert old.own_cut(6, Sizes(num_ranks=2, num_chunks=1, num_microbatches=8)) == ((3, 3),)
    assert old.own_cut(7, Sizes(num_ranks=2, num_chunks=1, num_microbatches=8)) is None
    assert refusal(PLAN, old, title="it") is not None
    assert refusal(PLAN, new, title="it") is None
    two = Plan(schedule="interleaved", num_microbatches=8, layers=((2, 1), (1, 2)))
    assert refusal(two, new, title="it") is not None, "its providers refuse virtual stages"


def test_a_yaml_gets_the_bars_and_keeps_everything_else():
    text = YAML.format(pattern="M-M*E-/*E", ranks=4, more="  account_for_loss_in_pipeline_split: false  # no")
    assert TARGET.apply(text, "run.yaml", PLAN) == (
        "# the recipe of Nemotron 3 Nano\n"
        "model:\n"
        '  hybrid_layer_pattern: "M-|M*E-/*E"  # mine\n'
        "  pipeline_model_parallel_size: 2\n"
        "  account_for_loss_in_pipeline_split: false  # no\n"
        '  recompute_granularity: "full"\n'
        '  recompute_method: "block"\n'
        "  recompute_num_layers: 1\n"
        "  pipeline_model_parallel_layout: null\n"
        "  virtual_pipeline_model_parallel_size: null\n"
        "train:\n"
        "  micro_batch_size: 1\n"
        "  global_batch_size: 8\n"
    )


@st.composite
def cut_patterns(draw):
    """A pattern, with blocks for further tokens or without, and a plan of its layers."""
    ranks = draw(st.integers(2, 4))
    counts = [[draw(st.integers(1, 4)) for _rank in range(ranks)]]
    total = sum(map(sum, counts))
    symbols = st.sampled_from([symbol for symbol in SYMBOLS if symbol not in "D+"])
    pattern = "M" + "".join(draw(st.lists(symbols, min_size=total - 1, max_size=total - 1)))
    most = draw(st.integers(0, 3))
    full = [[min(most, count) for count in row] for row in counts]
    plan = Plan(
        schedule="1f1b", num_microbatches=8, layers=cells(counts), recompute={FULL: cells(full)} if most else {}
    )
    return pattern + draw(st.sampled_from(["", "/*-", "/ME/ME"])), plan


@given(cut_patterns(), st.sampled_from([YAML, SCRIPT]))
def test_a_plan_is_put_into_a_file_and_read_back(case, form):
    pattern, plan = case
    assert refusal(plan, TARGET.abilities("0.4"), title="") is None
    text = form.format(pattern=pattern, ranks=plan.num_ranks, more="")
    assert [target.name for target in all_targets().values() if target.recognise(text, "file")] == [TARGET.name]
    edited = TARGET.apply(text, "file", plan)
    again = TARGET.read(edited, "file", GIVEN).plan
    assert (again.layers, again.recompute, again.num_microbatches) == (plan.layers, plan.recompute, 8)
    assert parse_pattern(pattern, place="").symbols in edited.replace("|", "")
    assert TARGET.apply(edited, "file", plan) == edited, "what has the plan already stays"


@pytest.mark.processes
def test_bash_sets_the_bars_and_hydra_gets_them_in_quotes():
    text = TARGET.write(PLAN, "0.4").pieces[0].text
    done = subprocess.run(
        ["bash", "-c", f"PATTERN='M-M*E-/*E'\n{text}\nprintf '%s\\n' \"${{PIPELINE_ARGS[@]}}\""],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split("\n")[:-1] == [
        "model.hybrid_layer_pattern='M-|M*E-/*E'",
        "model.pipeline_model_parallel_size=2",
        "model.pipeline_model_parallel_layout=null",
        "model.virtual_pipeline_model_parallel_size=null",
        "model.recompute_granularity=full",
        "model.recompute_method=block",
        "model.recompute_num_layers=1",
    ]


@pytest.mark.processes
def test_what_is_exported_is_read_as_the_plan():
    text = TARGET.write(PLAN, "0.4").pieces[0].text
    bars = subprocess.run(
        ["bash", "-c", f"PATTERN=M-M*E-\n{text}\nprintf '%s ' \"${{PIPELINE_ARGS[@]@Q}}\""],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    script = f"torchrun run.py train.micro_batch_size=1 train.global_batch_size=8 {bars}\n"
    assert TARGET.read(script, "run.sh", GIVEN).plan.layers == PLAN.layers


def test_before_bars_only_the_ranks_are_written():
    even = Plan(schedule="1f1b", num_microbatches=8, layers=((3, 3),))
    (piece,) = TARGET.write(even, "0.3").pieces
    assert "pattern" not in piece.text.lower()
    assert "model.pipeline_model_parallel_size=2" in piece.text


def test_degrees_are_fields_of_all_sections():
    planned = PlannedDegrees(
        degrees=Degrees(tensor=2, pipeline=2, data=4), replicas=1, microbatch=1, num_microbatches=8, sequence=4096
    )
    text = TARGET.write_degrees(PLAN, planned, "0.4").pieces[0].text
    assert "model.tensor_model_parallel_size=2" in text
    assert "train.global_batch_size=32" in text
    assert '$(with_bars "$PATTERN" 2 4)' in text
    stated = TARGET.read_degrees(YAML.format(pattern="M-|M*E-", ranks=2, more=""), "run.yaml")
    assert stated is not None


def test_another_number_of_layers_is_refused():
    with pytest.raises(InputError, match="hybrid_layer_pattern must have 6 layers, as the plan, got 4"):
        TARGET.apply(YAML.format(pattern="M-M*", ranks=2, more=""), "run.yaml", PLAN)


def test_the_page_shows_what_is_written():
    page = page_of(TARGET)
    assert "hybrid_layer_pattern" in page
    text = YAML.format(pattern="M-M*E-", ranks=2, more="")
    assert (
        load_document(TARGET.apply(text, "run.yaml", PLAN), file="run.yaml").value["model"]["hybrid_layer_pattern"]
        == "M-|M*E-"
    )
