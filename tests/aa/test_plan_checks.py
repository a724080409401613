"""What is checked where: in bubbles, without a longer step, in a rotation that leaves nothing out that fits."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evenflow.aa import Check, Direction, RankChecks, coverage_of, plan_checks
from evenflow.aa.fewest_turns import fewest_turns
from evenflow.model import Communication
from evenflow.schedule import FAMILIES, NUM_OPS, Action, Op, Schedule, make_schedule
from evenflow.schedule.bubble_formulas import BubblePlace, bubbles_by_formula
from evenflow.simulate import StageCosts, build_graph, peak_bytes, run
from tests.oracle import orders_of
from tests.strategies import WITHOUT_PAIRS, inputs_of, random_schedules, sizes
from tests.thoroughness import examples

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
    schedule = data.draw(
        sizes(families=WITHOUT_PAIRS, max_splits=1).map(lambda one: one.schedule()) | random_schedules()
    )
    if schedule.is_forward_only:
        return
    times = st.lists(st.integers(1, 30), min_size=schedule.num_stages, max_size=schedule.num_stages)
    forward, weight, compare, activations = data.draw(times), data.draw(times), data.draw(times), data.draw(times)
    backward = [first + second for first, second in zip(weight, data.draw(times), strict=True)]
    message_ns = data.draw(st.integers(0, 9))
    costs = replace(costs_of(schedule, forward, backward, weight), activation_bytes=np.array(activations))
    communication = Communication(latency_ns=message_ns)
    timeline = run(build_graph(schedule), costs.durations, communication)
    limit = data.draw(st.none() | st.integers(0, 40).map(lambda more: int(peak_bytes(schedule, costs).max()) + more))
    plans = plan_checks(timeline, costs, compare_ns=compare, communication=communication, memory_limit_bytes=limit)
    for number in range(max(len(plan.rotation) for plan in plans) + 1):
        pauses: dict[Action, int] = {}
        for plan in plans:
            checks = plan.turn(number)
            assert len({check.cell for check in checks}) == len(checks), "each once"
            for check in checks:
                is_possible(check, list(plan.order))
                assert check.after in plan.hosts
                pauses[check.after] = pauses.get(check.after, 0) + plan.costs_ns[check.cell[:2]]
            highest = most_held(plan, checks)
            peak = most_held(plan, ())
            assert highest <= peak + max(plan.activation_bytes.values())
            if limit is not None:
                assert checks == () or highest <= limit
        assert makespan_with(schedule, costs.durations, message_ns, pauses) == timeline.makespan_ns
    for plan in plans:
        checked = {check.cell for turn in plan.rotation for check in turn}
        assert checked | set(plan.never) == set(plan.cells), "what bubbles and memory hold is checked in one rotation"
        assert not checked & set(plan.never)


def most_held(plan: RankChecks, checks: tuple[Check, ...]) -> int:
    """The most bytes of activations at once: those of the step, of backwards until they are done again, and of a
    forward while it is done again. An input gradient here leaves nothing for the weight gradient."""
    begun = {(one.stage, one.microbatch): at for at, one in enumerate(plan.order) if one.op in (Op.B, Op.I)}
    live = highest = 0
    for at, action in enumerate(plan.order):
        live += {Op.F: 1, Op.B: -1, Op.I: -1, Op.W: 0}[action.op] * plan.activation_bytes[action.stage]
        kept = sum(
            plan.activation_bytes[check.stage]
            for check in checks
            if check.direction is B and begun[check.stage, check.microbatch] <= at <= plan.order.index(check.after)
        )
        again = (plan.activation_bytes[one.stage] for one in checks if one.direction is F and one.after == action)
        highest = max(highest, live + kept + max(again, default=0))
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
        checks = [check for turn in plan.rotation for check in turn]
        assert {check.cell for check in checks} == set(plan.cells)
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
    assert [len(turn) for turn in plan.rotation] == [1] * 8, "what makes the step longer is done one a step"
    assert {check.direction for turn in plan.rotation[:2] for check in turn} == {F, B}


def test_microbatches_take_turns_where_only_the_end_has_a_gap() -> None:
    """1F1B, last rank: its one gap is behind everything. It used to check the last microbatch in every step."""
    schedule = make_schedule("1f1b", num_ranks=4, num_chunks=1, num_microbatches=6)
    plan = equal_plan(schedule, 1, 2)[-1]
    assert plan.hosts == (plan.order[-1],)
    backwards = [[check.microbatch for check in turn if check.direction is B] for turn in plan.rotation]
    assert sorted({microbatch for turn in backwards for microbatch in turn}) == list(range(6))
    # Beside the last backward and a forward that is done again, the memory of one more microbatch holds one backward
    # that ended before; without forwards there would be room for it in the first step too.
    assert (len(plan.rotation), fewest_turns(plan)) == (6, 5)


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_no_choice_of_checks_needs_fewer_turns_than_the_bound(data: st.DataObject) -> None:
    schedule = data.draw(
        sizes(max_splits=1, max_ranks=3, max_chunks=2, max_microbatches=2).map(lambda one: one.schedule())
    )
    for plan in equal_plan(schedule, data.draw(st.integers(1, 12)), data.draw(st.integers(2, 12))):
        bound, count = fewest_turns(plan), len(plan.rotation)
        assert bound <= count
        if len(plan.first_places) <= 6:
            assert bound <= fewest_by_trying(plan) <= count


def fewest_by_trying(plan: RankChecks) -> int:
    """Every set of checks that one step holds, then the fewest sets that have all work between them."""
    cells = list(plan.first_places)
    sets = {frozenset()}
    frontier = [((), {})]
    while frontier:
        used, where = frontier.pop()
        for cell in cells:
            if used and cells.index(cell) <= cells.index(used[-1]):
                continue
            ready = next(place for place, _, number in plan.ended[cell[:2]] if number == cell[2])
            for place in range(ready, len(plan.order)):
                chosen = {**where, cell: place}
                if holds(plan, chosen):
                    sets.add(frozenset(chosen))
                    frontier.append(((*used, cell), chosen))
    reached = {frozenset()}
    for turns in range(len(cells) + 1):
        if frozenset(cells) in reached:
            return turns
        reached = {before | one for before in reached for one in sets}
    raise AssertionError("no rotation")


def holds(plan: RankChecks, chosen: dict[tuple[int, Direction, int], int]) -> bool:
    for place, gap in enumerate(plan.gaps_ns):
        costs = [plan.costs_ns[cell[:2]] for cell, at in chosen.items() if at == place]
        if sum(costs) > (gap if len(costs) == 1 else gap - gap // 10):
            return False
    for place, room in enumerate(plan.room_bytes):
        kept = sum(
            plan.activation_bytes[cell[0]]
            for cell, at in chosen.items()
            if cell[1] is B and place in plan.kept(cell, at)
        )
        if kept > room:
            return False
    return True


def test_coverage_counts_what_a_rotation_checks() -> None:
    """1F1B on 2 ranks, 2 microbatches, f = 1, b = 2: F0 F1 . B0 . B1 and . F0 B0 F1 B1 . ."""
    schedule = make_schedule("1f1b", num_ranks=2, num_chunks=1, num_microbatches=2)
    plans = equal_plan(schedule, 1, 2)
    coverage = coverage_of(plans, step_ns=9)
    first, last = coverage.ranks
    assert [len(plan.never) for plan in plans] == [2, 0]
    assert first.never == (((0, B), 2),)
    assert first.never_share == pytest.approx(4 / 6)
    for rank, plan in zip(coverage.ranks, plans, strict=True):
        checked_ns = sum(plan.work_ns[check.cell[:2]] for turn in plan.rotation for check in turn)
        assert rank.share == pytest.approx(checked_ns / len(plan.rotation) / 6)
        assert rank.kind_turns <= rank.num_turns
    assert coverage.num_turns == max(first.num_turns, last.num_turns)
    assert coverage.errors_until_seen(1) == pytest.approx(1 / last.share)
    assert coverage.hours_if_always == pytest.approx(coverage.num_turns * 9 / 3.6e12)


@given(sizes(max_splits=1), st.integers(1, 9), st.integers(1, 9))
def test_every_window_of_a_rotation_checks_everything(one, forward_ns: int, backward_ns: int) -> None:
    schedule = one.schedule()
    plans = equal_plan(schedule, forward_ns, backward_ns + 1)
    coverage = coverage_of(plans, step_ns=1)
    for plan, rank in zip(plans, coverage.ranks, strict=True):
        count = rank.num_turns
        kinds = {cell[:2] for cell in plan.first_places}
        for first in range(0 if count else 1, count, max(1, count // 3)):
            window = {check.cell for number in range(first, first + count) for check in plan.turn(number)}
            assert window == set(plan.first_places)
            near = {check.cell[:2] for number in range(first, first + rank.kind_turns) for check in plan.turn(number)}
            assert near == kinds
