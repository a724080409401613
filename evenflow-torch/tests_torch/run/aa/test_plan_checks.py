"""What is checked where: in bubbles, without a longer step, everything that fits within the stated number of steps."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evenflow.model import Communication
from evenflow.schedule import FAMILIES, NUM_OPS, Action, Op, Schedule, make_schedule
from evenflow.schedule.bubble_formulas import BubblePlace, bubbles_by_formula
from evenflow.simulate import StageCosts, build_graph, run
from evenflow_torch.run.aa.plan_checks import Check, RankChecks, plan_checks
from evenflow_torch.run.values.aa_report import Direction
from tests.oracle import orders_of
from tests.strategies import inputs_of, random_schedules, sizes

F, B = Direction.FORWARD, Direction.BACKWARD


def costs_of(schedule: Schedule, forward_ns: list[int], backward_ns: list[int], weight_ns: list[int]) -> StageCosts:
    zeros = np.zeros(schedule.num_stages, dtype=np.int64)
    return StageCosts(
        num_ranks=schedule.num_ranks,
        forward_ns=np.array(forward_ns),
        backward_ns=np.array(backward_ns),
        weight_ns=np.array(weight_ns),
        recompute_ns=zeros,
        activation_bytes=zeros,
        until_weight_bytes=zeros,
        static_bytes=np.zeros(schedule.num_ranks, dtype=np.int64),
        working_bytes=np.zeros(schedule.num_ranks, dtype=np.int64),
    )


def equal_plan(schedule: Schedule, forward_ns: int, backward_ns: int, *, weight_ns: int = 0, everywhere: bool = False):
    count = schedule.num_stages
    costs = costs_of(schedule, [forward_ns] * count, [backward_ns] * count, [weight_ns] * count)
    timeline = run(build_graph(schedule), costs.durations)
    return plan_checks(timeline, costs, compare_ns=[0] * count, everywhere=everywhere)


def makespan_with(schedule: Schedule, durations: np.ndarray, message_ns: int, pauses: dict[Action, int]) -> int:
    """The slow simulator: a pause after an action delays what follows on its rank, and no message."""
    ends: dict[Action, int] = {}
    waiting = [list(order) for order in orders_of(schedule)]
    free = [0] * len(waiting)
    while any(waiting):
        for rank, order in enumerate(waiting):
            while order:
                action = order[0]
                needs = inputs_of(action, schedule.num_stages)
                there = [need for need in needs if need in ends]
                if needs and not there:
                    break
                ranks = schedule.stage_ranks
                ready = max(
                    (ends[need] + message_ns * (ranks[need.stage] != ranks[action.stage]) for need in there), default=0
                )
                ends[action] = max(free[rank], ready) + int(durations[NUM_OPS * action.stage + action.op])
                free[rank] = ends[action] + pauses.get(action, 0)
                order.pop(0)
    return max(free, default=0)


@given(st.data())
def test_checks_lie_in_bubbles_and_make_no_step_longer(data: st.DataObject) -> None:
    schedule = data.draw(sizes(max_splits=1).map(lambda one: one.schedule()) | random_schedules())
    if schedule.is_forward_only:
        return
    times = st.lists(st.integers(1, 30), min_size=schedule.num_stages, max_size=schedule.num_stages)
    forward, weight, compare = data.draw(times), data.draw(times), data.draw(times)
    backward = [first + second for first, second in zip(weight, data.draw(times), strict=True)]
    message_ns = data.draw(st.integers(0, 9))
    costs = costs_of(schedule, forward, backward, weight)
    communication = Communication(latency_ns=message_ns)
    timeline = run(build_graph(schedule), costs.durations, communication)
    plans = plan_checks(timeline, costs, compare_ns=compare, communication=communication)

    seen: list[set[tuple[int, Direction]]] = [set() for _ in plans]
    turns = 2 * schedule.num_chunks
    for number in range(turns + 3):
        pauses: dict[Action, int] = {}
        for rank, plan in enumerate(plans):
            checks = plan.turn(number)
            asked = [(check.stage, check.direction, check.microbatch) for check in checks]
            assert len(set(asked)) == len(checks), "each once"
            assert kept_at_once(checks, list(plan.order)) <= most_live(list(plan.order)) + schedule.num_chunks
            for check in checks:
                is_possible(check, list(plan.order))
                assert check.after in plan.hosts
                cost = {F: forward, B: backward}[check.direction][check.stage] + compare[check.stage]
                pauses[check.after] = pauses.get(check.after, 0) + cost
                if number < turns:
                    seen[rank].add((check.stage, check.direction))
        assert makespan_with(schedule, costs.durations, message_ns, pauses) == timeline.makespan_ns
    for plan, found in zip(plans, seen, strict=True):
        assert found | set(plan.uncovered) == set(plan.items), "whatever fits a bubble has been checked"
        assert not found & set(plan.uncovered)


def most_live(order: list[Action]) -> int:
    """Stages and microbatches between forward and backward at the fullest moment."""
    live = highest = 0
    for action in order:
        live += {Op.F: 1, Op.B: -1, Op.I: 0, Op.W: -1}[action.op]
        highest = max(highest, live)
    return highest


def kept_at_once(checks: tuple[Check, ...], order: list[Action]) -> int:
    """The same with the activations that checked backwards keep until they are checked."""
    ends = {(action.stage, action.microbatch): at for at, action in enumerate(order) if action.op in (Op.B, Op.W)}
    kept = [(ends[check.stage, check.microbatch], order.index(check.after)) for check in checks if check.direction is B]
    live = highest = 0
    for at, action in enumerate(order):
        live += {Op.F: 1, Op.B: -1, Op.I: 0, Op.W: -1}[action.op]
        highest = max(highest, live + sum(first <= at <= last for first, last in kept))
    return highest


def is_possible(check: Check, order: list[Action]) -> None:
    """What is done again has been done."""
    ends = (Op.F,) if check.direction is F else (Op.B, Op.W)
    (done,) = [
        place
        for place, action in enumerate(order)
        if (action.stage, action.microbatch) == (check.stage, check.microbatch) and action.op in ends
    ]
    assert done <= order.index(check.after)


@given(sizes(max_splits=1), st.integers(1, 9), st.integers(1, 9))
def test_with_everywhere_nothing_is_left_out(one, forward_ns: int, backward_ns: int) -> None:
    for plan in equal_plan(one.schedule(), forward_ns, backward_ns + 1, everywhere=True):
        checks = [check for number in range(2 * one.num_chunks) for check in plan.turn(number)]
        assert {(check.stage, check.direction) for check in checks} == set(plan.items)
        assert {check.after for check in checks} <= set(plan.hosts)
        for check in checks:
            is_possible(check, list(plan.order))


@given(st.sampled_from(sorted(FAMILIES)), st.integers(2, 6), st.integers(1, 3), st.integers(1, 9), st.integers(1, 9))
@example("zb-h2", 3, 1, 2, 4)
@example("zbv", 3, 2, 1, 2)
def test_where_formulas_know_a_bubble_that_holds_a_check_it_is_found(
    family: str, num_ranks: int, num_chunks: int, forward_ns: int, backward_ns: int
) -> None:
    """After its last action a rank has done everything: a bubble there that is long enough holds any check. Between
    backwards and between forwards it has done at least that."""
    chunks = FAMILIES[family].num_chunks or num_chunks
    count = {"num_ranks": num_ranks, "num_chunks": chunks, "num_microbatches": 2 * num_ranks}
    times = {"forward_ns": forward_ns, "backward_ns": backward_ns, "weight_ns": backward_ns // 2}
    plans = equal_plan(make_schedule(family, **count), **times)
    for rank, plan in enumerate(plans):
        bubbles = bubbles_by_formula(family, rank=rank, **times, **count)
        for bubble in bubbles or ():
            if bubble.place is BubblePlace.END:
                for item in plan.items:
                    cost = forward_ns if item[1] is F else backward_ns
                    assert (item in plan.uncovered) <= (bubble.length_ns < cost)
            first = plan.items[0][0]
            if bubble.place is BubblePlace.FORWARDS and bubble.length_ns >= forward_ns:
                assert (first, F) not in plan.uncovered


def test_by_hand() -> None:
    """1F1B, 4 ranks, f = 1, b = 2: only the backward of rank 1 needs more than its gaps hold, with a comparison."""
    schedule = make_schedule("1f1b", num_ranks=4, num_chunks=1, num_microbatches=8)
    plans = equal_plan(schedule, 1, 2)
    assert [plan.uncovered for plan in plans] == [()] * 4
    assert [plan.gaps_ns[-1] for plan in plans] == [0, 2, 4, 6]

    stages = [1] * 4
    costs = costs_of(schedule, stages, [2] * 4, [0] * 4)
    timeline = run(build_graph(schedule), costs.durations)
    plans = plan_checks(timeline, costs, compare_ns=[1] * 4)
    assert [plan.uncovered for plan in plans] == [(), ((1, B),), (), ()]


def test_bubbles_that_hold_more_are_filled() -> None:
    """1F1B, 4 ranks, f = 1, b = 2: rank 0 waits for the first gradient, then between the last backwards."""
    schedule = make_schedule("1f1b", num_ranks=4, num_chunks=1, num_microbatches=8)
    plan = equal_plan(schedule, 1, 2)[0]
    checks = plan.turn(0)
    spent = [0] * len(plan.order)
    for check in checks:
        spent[plan.order.index(check.after)] += plan.costs_ns[check.stage, check.direction]
    assert all(used <= gap for used, gap in zip(spent, plan.gaps_ns, strict=True))
    assert len(checks) > 2, "more than one forward and one backward"
    # Nothing that could be checked there fits any more but what would need more memory.
    assert sum(spent) >= sum(plan.gaps_ns) // 2


def test_one_rank_has_no_bubbles_unless_asked_for() -> None:
    schedule = make_schedule("1f1b", num_ranks=1, num_chunks=1, num_microbatches=4)
    (plan,) = equal_plan(schedule, 1, 2)
    assert (plan.hosts, plan.turn(0), plan.uncovered) == ((), (), ((0, F), (0, B)))
    (plan,) = equal_plan(schedule, 1, 2, everywhere=True)
    assert {check.direction for check in plan.turn(0)} == {F, B}


@pytest.mark.parametrize("number", range(4))
def test_forwards_that_live_take_turns(number: int) -> None:
    order = tuple(map(Action.parse, ("0F0", "0F1", "0B0", "0B1")))
    plan = RankChecks(order=order, gaps_ns=(0, 1, 0, 0), costs_ns={(0, F): 1, (0, B): 1}, everywhere=False)
    (check,) = plan.turn(number)
    assert check == Check(after=order[1], stage=0, microbatch=number // 2, direction=F)
