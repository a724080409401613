"""Every family on real processes: losses and gradients are those of the unsplit model."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.model.stage_ranks import v_shaped
from evenflow.schedule import FAMILIES, Action, Op, make_schedule
from evenflow.simulate import build_graph
from tests.run.cases import NUM_RANKS, Answer, run_group
from tests.run.models import buffers_case, checkpoint_case, hooks_case, llama, llama_case, row_case

TOLERANCE = 1e-12


def family_plan(name: str) -> Plan:
    """Uneven cells, microbatches that the ranks do not divide where the family allows that, every kind of recompute."""
    chunks = FAMILIES[name].num_chunks or 2
    for microbatches in (5, 4, 6, 3):
        try:
            build_graph(make_schedule(name, num_ranks=NUM_RANKS, num_chunks=chunks, num_microbatches=microbatches))
        except InputError:
            continue
        break
    else:
        raise AssertionError(f"{name} has none of these sizes")
    kinds = (((1, 0, 1), (0, 0, 0)), ((0, 1, 0), (0, 0, 1)), ((1, 0, 0), (1, 0, 0)))
    recompute = {kind: table[:chunks] for kind, table in zip(("full", "select", "both"), kinds, strict=True)}
    return Plan(
        schedule=name,
        num_microbatches=microbatches,
        layers=((2, 1, 2), (1, 0, 1))[:chunks],
        recompute=recompute,
    )


def v_plan(num_microbatches: int) -> Plan:
    """Two chunks in a V, all forwards, then the backwards from the last microbatch to the first, split on rank 1."""
    ranks = v_shaped(num_ranks=NUM_RANKS)
    stages = range(2 * NUM_RANKS)
    orders = []
    for rank in range(NUM_RANKS):
        own = [stage for stage in stages if ranks[stage] == rank]
        order = [Action(stage, Op.F, unit) for stage in own for unit in range(num_microbatches)]
        for stage, unit in itertools.product(reversed(own), reversed(range(num_microbatches))):
            if rank == 1:
                order += [Action(stage, Op.I, unit), Action(stage, Op.W, unit)]
            else:
                order.append(Action(stage, Op.B, unit))
        orders.append(order)
    return Plan(
        schedule="v",
        num_microbatches=num_microbatches,
        layers=((1, 2, 0), (1, 1, 2)),
        recompute={"full": ((1, 1, 0),) * 2},
        order=tuple(",".join(map(str, order)) for order in orders),
    )


def own_order_plan(num_microbatches: int) -> Plan:
    """A plan with an order of its own, as a search finds them: every other backward is split, on each stage."""
    lines = []
    for rank in range(NUM_RANKS):
        schedule = make_schedule("1f1b", num_ranks=NUM_RANKS, num_chunks=1, num_microbatches=num_microbatches)
        order, late = [], []
        for action in schedule.order(rank):
            if action.op is Op.B and action.microbatch % 2:
                order.append(replace(action, op=Op.I))
                late.append(replace(action, op=Op.W))
            else:
                order.append(action)
                order += [late.pop()] if late else []
        lines.append(",".join(map(str, order + late)))
    return Plan(
        schedule="search",
        num_microbatches=num_microbatches,
        layers=((2, 1, 2),),
        recompute={"full": ((1, 0, 1),)},
        order=tuple(lines),
    )


V_PLAN = v_plan(4)
FIRST_LAST_EMPTY = Plan(schedule="1f1b", num_microbatches=4, layers=((0, 3, 0),))
PLAIN = Plan(schedule="1f1b", num_microbatches=9, layers=((1, 1, 1),))
CHECKED = [Action(0, Op.F, 2), Action(0, Op.B, 0), Action(0, Op.B, 8)]

CASES: dict[str, Callable[[int], Answer]] = {
    **{name: partial(llama_case, family_plan(name)) for name in FAMILIES},
    "tied": partial(llama_case, family_plan("interleaved"), tied=True),
    "tied, split backward": partial(llama_case, family_plan("zb-h1"), tied=True),
    "tied, in a V": partial(llama_case, V_PLAN, tied=True),
    "in a V, backwards in reverse": partial(llama_case, V_PLAN),
    "dropout": partial(llama_case, family_plan("1f1b"), dropout=0.2),
    "dropout, split backward": partial(llama_case, family_plan("zb-h1"), dropout=0.2),
    "eager attention": partial(llama_case, family_plan("1f1b"), attention="eager"),
    "its own order": partial(llama_case, own_order_plan(5), dropout=0.2),
    "empty stages": partial(llama_case, FIRST_LAST_EMPTY),
}
OTHERS: dict[str, Callable[[int], Answer]] = {
    "row": partial(
        row_case, Plan(schedule="zb-h1", num_microbatches=4, layers=((1, 2, 1),), recompute={"full": ((1, 1, 0),)})
    ),
    "buffers": partial(buffers_case, PLAIN),
    "hooks": partial(hooks_case, PLAIN, after=CHECKED),
    "checkpoint": partial(checkpoint_case, PLAIN),
}


@pytest.fixture(scope="module")
def answers() -> dict[str, list[Answer]]:
    found = run_group({**CASES, **OTHERS})
    troubles = {(name, answer.trouble) for name, case in found.items() for answer in case if answer.trouble}
    assert not troubles, "\n".join(f"{name}: {trouble}" for name, trouble in sorted(troubles))
    return found


@pytest.mark.parametrize("name", CASES)
def test_losses_and_gradients_are_those_of_the_unsplit_model(answers: dict[str, list[Answer]], name: str) -> None:
    assert max(answer.error for answer in answers[name]) <= TOLERANCE
    losses = [answer.loss_error for answer in answers[name] if answer.loss_error is not None]
    assert len(losses) == 1, "the loss is reported once"
    assert losses[0] <= TOLERANCE


def test_a_row_of_modules_draws_the_same_random_numbers_however_it_is_split(answers: dict[str, list[Answer]]) -> None:
    assert max(answer.error for answer in answers["row"]) <= TOLERANCE
    assert next(name for answer in answers["row"] for name in answer.names) == "0.weight"


def test_receive_buffers_live_only_as_long_as_they_are_needed(answers: dict[str, list[Answer]]) -> None:
    for most, left in (answer.found for answer in answers["buffers"]):
        assert left == 0
        assert most <= NUM_RANKS + 1 < PLAIN.num_microbatches


def test_hooks_run_after_their_action_in_every_step(answers: dict[str, list[Answer]]) -> None:
    # After 0F2 rank 0 has three microbatches alive; after 0B0 microbatches 1 and 2; after the last backward none.
    once = [("0F2", [0, 1, 2]), ("0B0", [1, 2]), ("0B8", [])]
    assert answers["hooks"][0].found == 2 * once


def test_checkpoints_have_the_names_of_the_unsplit_model(answers: dict[str, list[Answer]]) -> None:
    case = answers["checkpoint"]
    assert {name for answer in case for name in answer.names} == set(llama(3, tied=True).state_dict())
    assert [answer.found for answer in case] == [(True, ["state_dict", "batch"])] * NUM_RANKS
