"""Every family and plans with an order of their own, on real processes: the numbers are the unsplit model's."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from evenflow.model import HostLink, Plan
from evenflow.schedule import FAMILIES, Action, Op, schedule_of
from tests_torch.run.cases import NUM_RANKS, Answer, untroubled
from tests_torch.run.models import (
    buffers_case,
    checkpoint_case,
    hooks_case,
    llama,
    llama_case,
    mixed_case,
    row_case,
)
from tests_torch.run.plans import V_PLAN, family_plan, own_order_plan

pytestmark = pytest.mark.processes

TOLERANCE = 1e-12


FIRST_LAST_EMPTY = Plan(schedule="1f1b", num_microbatches=4, layers=((0, 3, 0),))
PLAIN = Plan(schedule="1f1b", num_microbatches=9, layers=((1, 1, 1),))
CHECKED = [Action(0, Op.F, 2), Action(0, Op.B, 0), Action(0, Op.B, 8)]

TOGETHER = Plan(
    schedule="1f1b",
    num_microbatches=4,
    layers=((3, 2, 2),),
    recompute={"segment2": ((3, 0, 0),), "segment": ((0, 2, 0),), "full": ((0, 0, 1),)},
)
ON_HOST = Plan(
    schedule="1f1b",
    num_microbatches=4,
    layers=((3, 2, 2),),
    recompute={"offload": ((1, 1, 0),), "full+offload": ((1, 1, 1),), "select+offload": ((1, 0, 1),)},
)
SETS = Plan(
    schedule="1f1b",
    num_microbatches=4,
    layers=((3, 2, 2),),
    recompute={
        "mlp": ((1, 0, 1),),
        "input_layernorm+self_attn.q_proj": ((1, 1, 0),),
        "input_layernorm+mlp.act_fn+offload": ((1, 0, 0),),
    },
)

AWAY = Plan(
    schedule="f-then-b",
    num_microbatches=6,
    layers=((3, 2, 3),),
    recompute={"offload": ((1, 1, 2),), "full+offload": ((1, 0, 1),), "select+offload": ((1, 1, 0),)},
)
AWAY_IN_CHUNKS = Plan(
    schedule="interleaved",
    num_microbatches=6,
    layers=((2, 1, 2), (1, 2, 1)),
    recompute={
        "offload": ((1, 1, 0), (1, 2, 0)),
        "full+offload": ((1, 0, 0), (0, 0, 1)),
        "full": ((0, 0, 1), (0, 0, 0)),
    },
)
LINK = HostLink(bytes_per_s=10**9)
MOVING: dict[str, Callable[[int], Answer]] = {
    "moved as planned": partial(llama_case, AWAY, dropout=0.2, host_link=LINK),
    "moved far ahead, one engine": partial(llama_case, AWAY, host_link=replace(LINK, ahead=3, one_engine=True)),
    "moved late, few buffers": partial(llama_case, AWAY, host_link=replace(LINK, ahead=0, buffers=1)),
    "moved, split backward": partial(llama_case, replace(AWAY, schedule="zb-h1"), host_link=LINK),
    "moved in chunks": partial(llama_case, AWAY_IN_CHUNKS, dropout=0.2, host_link=replace(LINK, ahead=2, buffers=2)),
    "moved, cells with numbers of their own": partial(
        llama_case, AWAY_IN_CHUNKS, host_link=replace(LINK, cell_ahead=((0, 1, 2), (3, 2, 1)))
    ),
    "moved, eager attention": partial(llama_case, AWAY, attention="eager", host_link=LINK),
    "moved, tied": partial(llama_case, AWAY_IN_CHUNKS, tied=True, host_link=LINK),
}

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
    "segments": partial(llama_case, TOGETHER, dropout=0.2),
    "segments, split backward": partial(llama_case, replace(TOGETHER, schedule="zb-h1")),
    "sets of modules": partial(llama_case, SETS, dropout=0.2),
    "sets of modules, split backward": partial(llama_case, replace(SETS, schedule="zb-h1")),
    "on the host": partial(llama_case, ON_HOST, dropout=0.2),
    "on the host, split backward": partial(llama_case, replace(ON_HOST, schedule="zb-h1")),
    **MOVING,
    "nothing to move": partial(llama_case, PLAIN, host_link=LINK),
}
SPLIT = {name: family_plan(name) for name in FAMILIES if Op.W in schedule_of(family_plan(name)).ops}
MIXED: dict[str, Callable[[int], Answer]] = {
    f"mixed, {name}": partial(mixed_case, replace(plan, recompute={"full": plan.recompute["full"]}))
    for name, plan in {**SPLIT, "its own order": own_order_plan(5)}.items()
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
    return untroubled({**CASES, **MIXED, **OTHERS})


@pytest.mark.parametrize("name", CASES)
def test_losses_and_gradients_are_those_of_the_unsplit_model(answers: dict[str, list[Answer]], name: str) -> None:
    assert max(answer.error for answer in answers[name]) <= TOLERANCE
    losses = [answer.loss_error for answer in answers[name] if answer.loss_error is not None]
    assert len(losses) == 1, "the loss is reported once"
    assert losses[0] <= TOLERANCE


@pytest.mark.parametrize("name", MOVING)
def test_something_moved_when_planned(answers: dict[str, list[Answer]], name: str) -> None:
    assert any(answer.found for answer in answers[name])
    assert not any(answer.found for answer in answers["nothing to move"] + answers["on the host"])


@pytest.mark.parametrize("name", MIXED)
def test_no_kind_of_layer_loses_gradients_in_a_split_backward(answers: dict[str, list[Answer]], name: str) -> None:
    assert max(answer.error for answer in answers[name]) <= TOLERANCE


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
