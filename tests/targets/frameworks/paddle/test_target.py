"""Paddle: what it can run, and the text that it gets."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings

from evenflow.adapters.paddle import planned_layers
from evenflow.model import FULL, SELECT, Plan
from evenflow.targets.frameworks.paddle.target import TARGET
from evenflow.targets.refusal import refusal
from evenflow.targets.target import GivenSizes
from tests.adapters.layer_lists import entries_for, full_plans
from tests.adapters.stub_packages import class_name, is_recomputed, paddle

__all__ = ["paddle"]
VERSION = TARGET.versions[-1]
ABILITIES = TARGET.abilities(VERSION)
PLAN = Plan(
    schedule="interleaved",
    num_microbatches=8,
    layers=((1, 3, 2), (2, 1, 1)),
    recompute={FULL: ((1, 0, 2), (0, 1, 0))},
)


def form(entries: list[Any]) -> list[tuple[str, bool]]:
    return [(class_name(entry), is_recomputed(entry, build="build_layer")) for entry in entries]


def test_the_pieces_of_a_plan() -> None:
    written = TARGET.write(PLAN, VERSION)
    module, use, strategy = written.pieces
    head, _, function = module.text.partition("\n\n\n")
    assert head == (
        "from typing import Any\n\nLAYERS = [1, 3, 2, 2, 1, 1]\nRECOMPUTED = [1, 0, 2, 0, 1, 0]\nCHUNKS = 2"
    )
    assert function.startswith("def staged(\n    entries: list[Any],\n")
    assert "evenflow" not in module.text
    assert use.text == (
        "from evenflow_stages import CHUNKS, LAYERS, RECOMPUTED, staged\n"
        "from paddle.distributed.fleet.meta_parallel import PipelineLayer\n\n"
        "# head, tail: the entries of your list before the first body layer and after the last one\n"
        "layers, seg_method = staged(layers, LAYERS, RECOMPUTED, chunks=CHUNKS, head=1, tail=1)\n"
        "model = PipelineLayer(\n"
        "    layers, num_stages=3, num_virtual_pipeline_stages=CHUNKS, seg_method=seg_method,\n"
        "    recompute_interval=0, loss_fn=loss_fn,\n"
        ")\n"
    )
    assert strategy.text == (
        'strategy.hybrid_configs = {"pp_degree": 3}\nstrategy.pipeline_configs = {"accumulate_steps": 8}\n'
    )
    assert len(written.notes) == 2


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=full_plans(max_chunks=3))
def test_the_written_module_does_what_the_adapter_does(paddle: None, plan: Plan) -> None:
    assume(plan.num_chunks == 1 or plan.num_ranks > 2)
    assert refusal(plan, ABILITIES, title=TARGET.title) is None
    names: dict[str, Any] = {}
    exec(TARGET.write(plan, VERSION).pieces[0].text, names)
    assert names["CHUNKS"] == plan.num_chunks
    numbers = (names["LAYERS"], names["RECOMPUTED"])
    entries, method = names["staged"](
        entries_for(plan, head=2, tail=1), *numbers, chunks=plan.num_chunks, head=2, tail=1
    )
    others, other = planned_layers(entries_for(plan, head=2, tail=1), plan, head=2, tail=1)
    assert (form(entries), method) == (form(others), other)


@pytest.mark.parametrize("all_recompute", [False, True])
@given(plan=full_plans(max_chunks=3))
def test_arguments_of_paddleformers_read_back_as_the_plan(all_recompute: bool, plan: Plan) -> None:
    assume(plan.num_chunks == 1 or plan.num_ranks > 2)
    assume(plan.num_layers > 0)
    plan = replace(plan, recompute={FULL: plan.layers} if all_recompute else {})
    *_others, piece = TARGET.write(plan, VERSION).pieces
    if plan.num_chunks > 1 and len({count for row in plan.layers for count in row}) > 1:
        assert piece.syntax == "python"
        return
    assert TARGET.recognise(piece.text, "sft.yaml")
    assert TARGET.read is not None
    assert TARGET.read(piece.text, "sft.yaml", GivenSizes(num_layers=plan.num_layers)).plan == plan


def test_arguments_of_paddleformers() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=((1, 3, 2, 2),), recompute={FULL: ((1, 3, 2, 2),)})
    assert TARGET.write(plan, VERSION).pieces[-1].text == (
        "pipeline_model_parallel_size: 4\n"
        "virtual_pipeline_model_parallel_size: 1\n"
        "gradient_accumulation_steps: 8\n"
        'pp_seg_method: "[0, 2, 5, 7]"\n'
        "recompute_granularity: full\n"
        "recompute_method: uniform\n"
        "recompute_num_layers: 1\n"
    )
    assert len(TARGET.write(replace(plan, recompute={FULL: ((1, 0, 2, 2),)}), VERSION).pieces) == 3


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (
            Plan(schedule="interleaved", num_microbatches=8, layers=((2, 2), (2, 2))),
            "ranks must be at least 3 with several chunks for Paddle, got 2",
        ),
        (
            Plan(schedule="interleaved", num_microbatches=5, layers=((2, 2, 2), (2, 2, 2))),
            "microbatches must be at least twice the number of ranks for Paddle, got 5",
        ),
        (
            Plan(schedule="f-then-b", num_microbatches=4, layers=((2, 2, 2), (2, 2, 2))),
            "microbatches must be the number of ranks with F-then-B for Paddle, got 4",
        ),
        (
            Plan(schedule="f-then-b", num_microbatches=3, layers=((2, 2, 2),)),
            "chunks must be at least 2 with F-then-B for Paddle, got 1",
        ),
        (
            Plan(schedule="1f1b", num_microbatches=8, layers=((2, 2),), recompute={SELECT: ((1, 0),)}),
            "recompute must be of the kinds full, full_attn, core_attn for Paddle, got 'select'",
        ),
        (
            Plan(schedule="interleaved", num_microbatches=9, group_size=4, layers=((2, 2, 2), (2, 2, 2))),
            "group size must be 3 for Paddle, which has no key for another, got 4",
        ),
    ],
)
def test_what_paddle_cannot_run(plan: Plan, message: str) -> None:
    assert message in str(refusal(plan, ABILITIES, title=TARGET.title))


@pytest.mark.parametrize("microbatches", [3, 6, 7])
def test_the_number_of_microbatches_decides_what_paddle_runs(microbatches: int) -> None:
    """With as many as ranks it is F-then-B, from twice as many on it is interleaved 1F1B."""
    can_run = [
        name
        for name in ABILITIES.schedules[1:]
        if not refusal(
            Plan(schedule=name, num_microbatches=microbatches, layers=((2, 2, 2), (2, 2, 2))), ABILITIES, title=""
        )
    ]
    assert can_run == (["f-then-b"] if microbatches == 3 else ["interleaved"])
