"""Hybrid models of Megatron-LM: patterns read, cut, written for bash, edited in scripts, refused."""

import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import FULL, Plan
from evenflow.model.plan import cells
from evenflow.predict.training import Degrees
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.targets.frameworks.megatron_hybrid.target import TARGET
from evenflow.targets.megatron_family.hybrid_pattern import SYMBOLS, parse_pattern
from evenflow.targets.refusal import refusal
from evenflow.targets.registry import all_targets, target_of_file
from evenflow.targets.target import GivenSizes
from tests.targets.pages import page_of

SCRIPT = """\
PATTERN='{pattern}'
torchrun --nproc_per_node 8 pretrain_hybrid.py --hybrid-layer-pattern "$PATTERN" --micro-batch-size 1 \\
    --global-batch-size 16 {more} \\
    --pipeline-model-parallel-size {ranks}
"""


def read(pattern, ranks=2, more="", **sizes):
    return TARGET.read(SCRIPT.format(pattern=pattern, ranks=ranks, more=more), "run.sh", GivenSizes(**sizes)).plan


def test_bars_are_the_ends_of_stages():
    plan = read("M-M-|M*|-M|EMME")
    assert plan.layers == ((4, 2), (2, 4))
    assert (plan.schedule, plan.num_microbatches) == ("interleaved", 4)
    assert read("M-M|-E").layers == ((3, 2),)


def test_without_bars_layers_are_dealt_out_evenly():
    assert read("M-M-M*-M").layers == ((4, 4),)
    assert read("M-M-M*-M", more="--decoder-first-pipeline-num-layers 3").layers == ((3, 5),)


def test_blocks_for_further_tokens_are_in_the_last_stage():
    assert read("M-M|*-M/*-/*-", mtp_layers=2).layers == ((3, 5),)
    with pytest.raises(InputError, match="mtp_num_layers must be 1"):
        read("M-M|*-M/*-/*-", mtp_layers=1)


def test_the_name_before_core_0_17_is_read():
    script = SCRIPT.format(pattern="M-M*", ranks=2, more="").replace("layer-pattern", "override-pattern")
    assert TARGET.read(script, "run.sh", GivenSizes()).plan.layers == ((2, 2),)
    edited = TARGET.apply(script, "run.sh", Plan(schedule="1f1b", num_microbatches=4, layers=((3, 1),)))
    assert "--hybrid-override-pattern" in edited
    assert "'M-M|*'" in edited


@pytest.mark.parametrize(
    ("pattern", "more", "message"),
    [
        ("M-X", "", "must have symbols of layers, which are M G"),
        ("", "", "must have symbols of layers"),
        ("M*|+-", "", "must have one sort of attention"),
        ("M-|M-/M/MM", "", "must have equal blocks for all further tokens"),
        ("M-|M-|M", "", "must have stages that are a multiple of the 2 ranks, got 3"),
        ("M-|M-", "--pipeline-model-parallel-layout 'Et|tL'", "must not be given beside a pattern of layers"),
        ("M-|M-", "--decoder-first-pipeline-num-layers 1", "must not be given beside a pattern of layers"),
        ("M-|M-", "--hybrid-override-pattern 'M-'", "must not be given beside hybrid_layer_pattern"),
        ("M-M", "", "must leave equally many layers to 2 ranks"),
    ],
)
def test_what_megatron_refuses_is_refused(pattern, more, message):
    with pytest.raises(InputError, match=message):
        read(pattern, more=more)


def test_a_script_with_a_pattern_is_of_a_hybrid_model():
    able = [target for target in all_targets().values() if target.read is not None]
    script = SCRIPT.format(pattern="M-M*", ranks=2, more="")
    assert target_of_file(script, "run.sh", able=able, option="--to") is TARGET
    printed = "  pipeline_model_parallel_size ........ 2\n  hybrid_layer_pattern ........ M-M*\n"
    assert target_of_file(printed, "log", able=able, option="--to") is TARGET
    plain = printed.replace("M-M*", "None")
    assert target_of_file(plain, "log", able=able, option="--to").name == "megatron"


@st.composite
def cut_patterns(draw):
    """A pattern, with blocks for further tokens or without, and a plan of its layers."""
    ranks, chunks = draw(st.integers(2, 4)), draw(st.integers(1, 3))
    counts = [[draw(st.integers(1, 4)) for _rank in range(ranks)] for _chunk in range(chunks)]
    total = sum(map(sum, counts))
    symbols = st.sampled_from([symbol for symbol in SYMBOLS if symbol not in "D+"])
    pattern = "M" + "".join(draw(st.lists(symbols, min_size=total - 1, max_size=total - 1)))
    further = draw(st.sampled_from(["", "/*-", "/ME/ME"]))
    most = draw(st.integers(0, 3))
    full = [[min(most, count) for count in row] for row in counts]
    plan = Plan(
        schedule="interleaved" if chunks > 1 else "1f1b",
        num_microbatches=4 * ranks,
        layers=cells(counts),
        recompute={FULL: cells(full)} if most else {},
    )
    return pattern + further, plan


@given(cut_patterns())
def test_a_plan_is_put_into_a_script_and_read_back(case):
    pattern, plan = case
    assert refusal(plan, TARGET.abilities("0.17"), title="") is None
    script = SCRIPT.format(pattern=pattern, ranks=1, more="").replace("--nproc_per_node 8", "--nproc_per_node 1")
    script = script.replace("nproc_per_node 1", f"nproc_per_node {plan.num_ranks}").replace(
        "size 16", f"size {plan.num_microbatches}"
    )
    edited = TARGET.apply(script, "run.sh", plan)
    again = TARGET.read(edited, "run.sh", GivenSizes()).plan
    assert again.layers == plan.layers
    assert again.recompute == plan.recompute
    assert parse_pattern(pattern, place="").symbols in edited.replace("|", "")


@pytest.mark.processes
def test_bash_sets_the_bars():
    plan = Plan(schedule="interleaved", num_microbatches=4, layers=((2, 1), (3, 2)))
    text = TARGET.write(plan, "0.17").pieces[0].text
    for before, after in (("M-M*-E*-", "M-|M|*-E|*-"), ("M-M*|-E*-/MM/MM", "M-|M|*-E|*-/MM/MM")):
        done = subprocess.run(
            ["bash", "-c", f"PATTERN='{before}'\n{text}\nprintf '%s\\n' \"${{PIPELINE_ARGS[@]}}\""],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split("\n")[:2] == ["--hybrid-layer-pattern", after]
        assert parse_pattern(after, place="").with_cut([2, 1, 3, 2]) == after


def test_degrees_are_flags_of_megatron():
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=((2, 1),))
    planned = PlannedDegrees(
        degrees=Degrees(tensor=2, pipeline=2, data=4), replicas=1, microbatch=1, num_microbatches=4, sequence=4096
    )
    text = TARGET.write_degrees(plan, planned, "0.17").pieces[0].text
    assert "--tensor-model-parallel-size 2" in text
    assert '"$(with_bars "$PATTERN" 2 1)"' in text


def test_another_number_of_layers_is_refused():
    with pytest.raises(InputError, match="hybrid_layer_pattern must have 5 layers, as the plan, got 4"):
        TARGET.apply(
            SCRIPT.format(pattern="M-M*", ranks=2, more=""),
            "run.sh",
            Plan(schedule="1f1b", num_microbatches=4, layers=((3, 2),)),
        )


def test_a_cell_without_layers_is_left_out():
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=((3, 0),))
    assert refusal(plan, TARGET.abilities("0.17"), title="Megatron-LM") is not None
    assert refusal(replace(plan, layers=((2, 1),)), TARGET.abilities("0.17"), title="") is None


def test_the_page_shows_what_is_written():
    plan = Plan(schedule="interleaved", num_microbatches=16, layers=((13, 14), (13, 12)))
    assert TARGET.write(plan, "0.17").pieces[0].text in page_of(TARGET)
