"""Training scripts of MindSpeed with a plan in them, whatever flag cuts the network."""

import pytest
from hypothesis import assume, given

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.targets.frameworks.mindspeed.reader import read_script
from evenflow.targets.frameworks.mindspeed.target import TARGET
from evenflow.targets.refusal import refusal
from evenflow.targets.target import GivenSizes
from tests.targets.frameworks.mindspeed.test_reader import SCRIPT
from tests.targets.megatron_family.plans import flag_plans
from tests.targets.strategies import canonical

CHUNKED = Plan(
    schedule="interleaved",
    num_microbatches=8,
    layers=((2, 1), (3, 3)),
    recompute={"full": ((2, 1), (2, 2))},
)
CUTS = {
    "matrix": "--pipeline-num-transformer-layers '[[2],[5]*2,[4]]'",
    "list": "--num-layer-list 4,4,5,3",
    "noop": "--noop-layers 0,14,15",
    "layout": "--pipeline-model-parallel-layout Et*4|(t*4|)*2,t*4L --use-mindspeed",
}
NOOP = 3


def apply(text: str, plan: Plan) -> str:
    assert TARGET.apply is not None
    return TARGET.apply(text, "run.sh", plan)


def script_of(plan: Plan, cut: str) -> str:
    return SCRIPT.format(layers=plan.num_layers + (NOOP if cut == "noop" else 0), cut=CUTS[cut])


def test_a_matrix_stays_a_matrix() -> None:
    script = script_of(CHUNKED, "matrix")
    assert TARGET.version_of(script, "run.sh") == "26.0"
    assert apply(script, CHUNKED) == (
        script.replace("PP=4", "PP=2")
        .replace("'[[2],[5]*2,[4]]'", "[[2,3],[1,3]]")
        .replace(
            "    --pipeline-model-parallel-size",
            "    --num-virtual-stages-per-pipeline-rank 2 \\\n    --pipeline-model-parallel-size",
        )
        .replace("recompute-num-layers 3", "recompute-num-layers 2")
    )


def test_layers_that_do_nothing_leave_the_number_of_layers() -> None:
    edited = apply(script_of(CHUNKED, "noop") + "# --use-mindspeed\n", CHUNKED)
    assert "--num-layers 9 \\\n    --pipeline-model-parallel-layout Ett|t|ttt|tttL \\\n" in edited
    assert "noop" not in edited


@pytest.mark.parametrize("cut", CUTS)
@given(plan=flag_plans())
def test_an_edited_script_reads_as_the_plan(cut: str, plan: Plan) -> None:
    script = script_of(plan, cut)
    if cut == "list":
        assume(refusal(plan, TARGET.abilities("1.0"), title=TARGET.title) is None)
    if cut == "noop" and plan.num_layers + NOOP < 16:
        script = script.replace("0,14,15", "0,1,2")
    by_matrix = cut == "matrix" and plan.num_chunks == 1 and plan.num_layers % plan.num_ranks
    if by_matrix:
        with pytest.raises(InputError, match="must be a multiple of the"):
            apply(script, plan)
        return
    edited = apply(script, plan)
    found = read_script(edited, "run.sh", GivenSizes(num_microbatches=plan.num_microbatches))
    assert canonical(found.plan) == canonical(plan)
    assert found.unknown == ()
    assert apply(edited, plan) == edited
    assert ("[[" in edited) == (cut == "matrix")


def test_a_count_for_each_rank_goes_where_the_plan_counts_for_each_chunk() -> None:
    script = script_of(CHUNKED, "list").replace(
        "    --recompute-method", "    --enable-recompute-layers-per-pp-rank \\\n    --recompute-method"
    )
    assert "per-pp-rank" not in apply(script, CHUNKED)


@pytest.mark.parametrize(
    ("cut", "message"),
    [
        ("--schedules-method dualpipev", "must not be given: its order of work and its cut are MindSpeed's own"),
        ("--noop-layers 0,14,15", "num_layers must be 9, as in the plan, got 6"),
        ("--noop-layers x", "must be whole numbers with commas between them"),
    ],
)
def test_what_cannot_be_edited_has_one_message(cut: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        apply(SCRIPT.format(layers=9, cut=cut), CHUNKED)


def test_arguments_that_a_run_printed_are_not_edited() -> None:
    with pytest.raises(InputError, match="must be a script: this is what a run printed"):
        apply("  pipeline_model_parallel_size ...... 4\n  noop_layers ...... 1\n", CHUNKED)
