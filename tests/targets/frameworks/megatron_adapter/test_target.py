"""Megatron-LM with the adapter: flags of the cut alone, and any counts of recomputed layers."""

from dataclasses import replace

from evenflow.model import Plan
from evenflow.targets.frameworks.megatron_adapter.target import TARGET
from evenflow.targets.refusal import refusal
from evenflow.targets.registry import target_named

VERSION = TARGET.versions[-1]
PLAN = Plan(
    schedule="1f1b",
    num_microbatches=4,
    layers=((3, 4, 3),),
    recompute={"full": ((2, 0, 1),), "select": ((0, 3, 1),)},
)


def test_any_counts_of_two_kinds() -> None:
    assert refusal(PLAN, TARGET.abilities(VERSION), title=TARGET.title) is None
    other = Plan(schedule="1f1b", num_microbatches=4, layers=((3, 4),), recompute={"both": ((1, 0),)})
    assert refusal(other, TARGET.abilities(VERSION), title=TARGET.title) is not None
    stock = target_named("megatron")
    assert refusal(PLAN, stock.abilities(VERSION), title=stock.title) is not None


def test_flags_and_lines() -> None:
    flags, lines = TARGET.write(PLAN, VERSION).pieces
    assert flags.text == (
        "PIPELINE_ARGS=(\n"
        "    --num-layers 10\n"
        "    --pipeline-model-parallel-size 3\n"
        "    --pipeline-model-parallel-layout 'Et*3|t*4|t*3L'\n"
        ")\n"
    )
    assert lines.syntax == "python"
    compile(lines.text, "lines", "exec")
    assert 'with_plan(model_provider, "plan.json")' in lines.text


def test_flags_of_recomputation_are_taken_out() -> None:
    assert TARGET.apply is not None
    script = "run --pipeline-model-parallel-size 3 --recompute-granularity full --recompute-method block --lr 1\n"
    assert TARGET.apply(script, "run.sh", PLAN) == (
        "run --pipeline-model-parallel-layout 'Et*3|t*4|t*3L' --pipeline-model-parallel-size 3 --lr 1\n"
    )


MOVING = replace(
    PLAN, recompute={"full": ((2, 0, 0),), "offload_core_attn": ((0, 2, 1),), "offload_moe_act": ((1, 0, 2),)}
)


def test_cells_move_counts_of_their_own_from_016_on() -> None:
    assert refusal(MOVING, TARGET.abilities("0.16"), title=TARGET.title) is None
    assert refusal(MOVING, TARGET.abilities("0.13"), title=TARGET.title) is not None
    again = replace(PLAN, recompute={"layernorm+offload_core_attn": ((1, 0, 0),)})
    assert refusal(again, TARGET.abilities("0.16"), title=TARGET.title) is not None
    written = TARGET.write(MOVING, "0.16")
    assert (
        "    --fine-grained-activation-offloading\n    --offload-modules core_attn moe_act\n" in written.pieces[0].text
    )
    assert "--recompute" not in written.pieces[0].text
    assert written.environment == {"NVTE_CPU_OFFLOAD_V1": "1"}
    assert any("7398" in note for note in written.notes)


def test_a_script_moves_what_the_plan_moves_and_no_more() -> None:
    assert TARGET.apply is not None
    script = "run --pipeline-model-parallel-size 3 --lr 1\n"
    moving = TARGET.apply(script, "run.sh", MOVING)
    assert "--offload-modules core_attn moe_act" in moving
    assert "offload" not in TARGET.apply(moving, "run.sh", PLAN)
