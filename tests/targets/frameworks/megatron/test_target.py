"""Megatron-LM: the flags of a plan, and what its flags cannot say."""

import shlex
from dataclasses import replace

import pytest

from evenflow.model import Plan
from evenflow.targets.frameworks.megatron.target import TARGET
from evenflow.targets.refusal import refusal
from evenflow.targets.registry import target_named

VERSION = TARGET.versions[-1]


def refused(plan: Plan) -> str | None:
    error = refusal(plan, TARGET.abilities(VERSION), title=TARGET.title)
    return error.message if error else None


def test_the_registry_has_it() -> None:
    assert target_named("megatron") is TARGET


def test_flags_of_an_uneven_plan_with_chunks() -> None:
    plan = Plan(
        schedule="interleaved",
        num_microbatches=37,
        group_size=21,
        layers=((3, 4, 4, 5), (4, 4, 0, 4)),
        recompute={"full": ((2, 2, 2, 2), (2, 2, 0, 2))},
    )
    assert refused(plan) is None
    written = TARGET.write(plan, VERSION)
    assert written.pieces[0].text == (
        "PIPELINE_ARGS=(\n"
        "    --num-layers 28\n"
        "    --pipeline-model-parallel-size 4\n"
        "    --pipeline-model-parallel-layout 'Et*3|t*4|t*4|t*5|t*4|t*4||t*4L'\n"
        "    --microbatch-group-size-per-virtual-pipeline-stage 21\n"
        "    --recompute-granularity full\n"
        "    --recompute-method block\n"
        "    --recompute-num-layers 2\n"
        ")\n"
    )
    assert written.notes[1] == "--global-batch-size must be 37 x --micro-batch-size x the data-parallel size"


def test_flags_of_a_plain_plan() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=2, layers=((2, 2, 1, 2),))
    assert shlex.split(TARGET.write(plan, VERSION).pieces[0].text)[1:-1] == [
        *("--num-layers", "7", "--pipeline-model-parallel-size", "4"),
        *("--pipeline-model-parallel-layout", "Ett|tt|t|ttL"),
    ]


def test_select_in_all_layers_is_the_core_of_attention() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=((2, 3),), recompute={"select": ((2, 3),)})
    assert refused(plan) is None
    written = TARGET.write(plan, VERSION)
    assert "    --recompute-granularity selective\n    --recompute-modules core_attn\n" in written.pieces[0].text
    assert any("core_attn" in note for note in written.notes)


def test_two_ranks_with_chunks_need_the_overlap_of_messages() -> None:
    plan = Plan(schedule="interleaved", num_microbatches=4, layers=((2, 2), (2, 2)))
    assert refused(plan) is None
    assert any("--no-overlap-p2p-communication" in note for note in TARGET.write(plan, VERSION).notes)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (
            Plan(schedule="zb-h1", num_microbatches=4, layers=((2, 2),)),
            "schedule must be one of 1f1b, interleaved, 1f1b-overlap, interleaved-overlap for Megatron-LM, got 'zb-h1'",
        ),
        (
            Plan(schedule="interleaved", num_microbatches=5, layers=((2, 2), (2, 2))),
            "group size must be a size that Megatron-LM runs for 5 microbatches, got 2",
        ),
        (
            Plan(schedule="interleaved", num_microbatches=3, layers=((1,) * 4, (1,) * 4)),
            "group size must be a size that Megatron-LM runs for 3 microbatches, got 4",
        ),
        (
            Plan(schedule="interleaved", num_microbatches=4, layers=((2, 2),)),
            "chunks must be at least 2 under an interleaved schedule for Megatron-LM, got 1",
        ),
        (
            Plan(schedule="interleaved", num_microbatches=4, layers=((2,), (2,))),
            "ranks must be at least 2 with several chunks for Megatron-LM, got 1",
        ),
        (
            Plan(schedule="1f1b", num_microbatches=4, layers=((4, 4),), recompute={"full": ((2, 1),)}),
            "recompute must be recomputation that Megatron-LM has a way for, got 'full'",
        ),
        (
            Plan(schedule="1f1b", num_microbatches=4, layers=((4, 4),), recompute={"select": ((4, 3),)}),
            "recompute must be recomputation that Megatron-LM has a way for, got 'select'",
        ),
        (
            Plan(schedule="1f1b", num_microbatches=4, layers=((4, 4),), recompute={"comm": ((4, 4),)}),
            "recompute must be of the kinds full, select, core_attn, layernorm, mlp, moe, moe_act, mla_up_proj, "
            "segments of one length for Megatron-LM, got 'comm'",
        ),
        (
            Plan(schedule="1f1b", num_microbatches=4, layers=((4, 4),), sequence_splits=2),
            "sequence_splits must be 1 for Megatron-LM, which does not split sequences, got 2",
        ),
    ],
)
def test_what_its_flags_cannot_say(plan: Plan, message: str) -> None:
    assert (refused(plan) or "").startswith(message)


def test_what_it_keeps_to_beside_forwards_beside_backwards() -> None:
    plan = Plan(schedule="interleaved-overlap", num_microbatches=4, layers=((2, 2), (2, 2)), recompute={})
    assert refused(plan) is None
    assert "--overlap-moe-expert-parallel-comm" in TARGET.write(plan, "0.16").pieces[0].text
    assert any("dispatcher" in note for note in TARGET.write(plan, "0.16").notes)
    for kind, message in (("full", "must be of the kinds select"), ("moe", "must be of the kinds select")):
        assert message in str(refused(replace(plan, recompute={kind: plan.layers})))
    assert refused(replace(plan, recompute={"layernorm+moe_act": plan.layers})) is None
    assert refused(replace(plan, mtp_layers=1)) is None
    assert "mtp_layers must be at most 1" in str(refused(replace(plan, mtp_layers=2)))
    alone = Plan(schedule="1f1b-overlap", num_microbatches=4, layers=((4,),), recompute={})
    assert refused(alone) is None
    assert "ranks must be 1" in str(refused(replace(alone, layers=((2, 2),))))
    assert refusal(plan, TARGET.abilities("0.13"), title="Megatron-LM") is not None


def test_a_number_of_layers_holds_for_cells_that_have_as_many() -> None:
    layers = ((1, 4, 0, 3),)
    assert (
        refused(Plan(schedule="1f1b", num_microbatches=4, layers=layers, recompute={"full": ((1, 3, 0, 3),)})) is None
    )
    assert (
        refused(Plan(schedule="1f1b", num_microbatches=4, layers=layers, recompute={"full": ((1, 4, 0, 3),)})) is None
    )
    assert refused(Plan(schedule="1f1b", num_microbatches=4, layers=layers, recompute={"full": ((0, 3, 0, 3),)}))
