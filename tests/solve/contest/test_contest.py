"""A contest of schedules: what is known of a candidate beside its own race."""

from dataclasses import replace

from evenflow.baselines.even_plan import even_plan
from evenflow.model import CellRule, Request, Sizes
from evenflow.simulate import simulate
from evenflow.solve import Status, plan, plan_best
from evenflow.solve.best import run_contest
from evenflow.solve.clock import now_s
from evenflow.solve.contest.contest import Contest
from evenflow.solve.contest.entry import Entry, with_floor
from evenflow.solve.problem import make_problem
from evenflow.solve.proof import TOLERANCE
from evenflow.solve.requests import ContestSearch
from evenflow.units import MEGABYTE
from tests.networks import plain_network


def test_a_bound_over_any_order_raises_that_of_a_candidate():
    found = plan(plain_network(4), num_ranks=2, num_microbatches=3, time_limit_s=20)
    makespan = found.makespan_ns
    open_still = replace(found, status=Status.FEASIBLE, lower_bound_ns=makespan // 2)
    raised = with_floor(open_still, makespan * 3 // 4)
    assert (raised.status, raised.lower_bound_ns) == (Status.FEASIBLE, makespan * 3 // 4)
    assert with_floor(open_still, makespan // 3) is open_still
    closed = with_floor(open_still, makespan)
    assert (closed.status, closed.lower_bound_ns, closed.gap) == (Status.OPTIMAL, makespan, 0)


def test_an_infeasible_candidate_stays_what_it_is():
    none = plan(plain_network(4), num_ranks=2, num_microbatches=3, memory_limit_bytes=MEGABYTE, time_limit_s=20)
    assert with_floor(none, 10**9) is none


def test_a_candidate_is_open_exactly_where_the_best_is_not_proven():
    for limit in (None, 900 * MEGABYTE):
        best = plan_best(plain_network(8), num_ranks=2, num_microbatches=4, memory_limit_bytes=limit, time_limit_s=20)
        assert all(each.outcome is not None or not each.is_bounded for each in best.candidates)
        is_open = any(best.can_win(each) for each in best.candidates)
        assert is_open == (best.gap > 2 * TOLERANCE)


def test_of_equal_steps_the_one_that_recomputes_least_is_preferred_then_the_one_with_the_least_memory():
    first = plan(plain_network(4), num_ranks=2, num_microbatches=3, time_limit_s=20)
    network, least = first.simulation.network, first.plan
    # Layers that cost nothing more to recompute take the same step.
    runs = tuple(replace(run, layer=replace(run.layer, modes=as_quick(run.layer.modes))) for run in network.runs)
    more = replace(least, recompute={"full": ((1, 0),)})
    outcomes = [replace(first, simulation=simulate(replace(network, runs=runs), each)) for each in (least, more)]
    few, many = (
        Entry(schedule="1f1b", num_chunks=1, group_size=None, floor_ns=0, outcome=outcome) for outcome in outcomes
    )
    assert few.makespan_ns == many.makespan_ns
    peaks = [max(each.outcome.simulation.peak_memory_bytes) for each in (few, many)]
    assert few.preference < many.preference
    assert few.preference[2:] + many.preference[2:] == tuple(peaks)


def as_quick(modes):
    return {kind: replace(mode, backward_ns=modes["none"].backward_ns) for kind, mode in modes.items()}


def test_a_bound_of_many_that_cover_each_other_is_taken_at_once():
    entries: list[Entry] = []
    for floor_ns in (7, 9, *range(3, 60)):  # by recursion, two to the power of their number
        covered_by = tuple(entries)
        entries.append(
            Entry(schedule="1f1b", num_chunks=1, group_size=None, floor_ns=floor_ns % 10, covered_by=covered_by)
        )
    assert [entry.lower_bound_ns for entry in entries[:4]] == [7, 9, 9, 9]
    assert entries[-1].lower_bound_ns == 9
    entries[4].reason = "sizes that no one has"
    assert entries[4].lower_bound_ns == entries[-1].lower_bound_ns == float("inf")
    assert entries[3].lower_bound_ns == 9


def test_a_candidate_with_a_plan_does_not_wait_for_what_keeps_less():
    """Both even plans fit; there is time for one turn, which is for the shorter one."""
    network, sizes = plain_network(4, "select"), Sizes(num_ranks=2, num_chunks=1, num_microbatches=3)
    request = Request(network=network, sizes=sizes)
    full, select = (
        Entry(schedule="1f1b", num_chunks=1, group_size=None, floor_ns=0, rule=CellRule(kinds=(kind,)))
        for kind in ("full", "select")
    )
    recomputed = even_plan(network, sizes, schedule="1f1b", recompute="full", allow_empty=False)
    search = ContestSearch(num_chunks=(1,), time_limit_s=0.0, known=(recomputed,))
    best = run_contest([full, select], {1: request}, search, began=now_s())
    assert select.frugal == (full,)
    assert best.outcome.plan is not None
    assert set(best.outcome.plan.used_kinds) == {"select"}


def test_of_numbers_with_the_same_plan_the_smallest_has_a_turn(monkeypatch):
    """Four layers in four cells: one layer of each is recomputed under every number from 1 on. In two, 2 is another."""
    turns: list[Entry] = []
    monkeypatch.setattr(Contest, "_turn", lambda _contest, entry, _seconds: turns.append(entry))

    def numbers_with_a_turn(num_ranks: int, num_chunks: int) -> list[int]:
        sizes = Sizes(num_ranks=num_ranks, num_chunks=num_chunks, num_microbatches=4)
        request = Request(network=plain_network(4), sizes=sizes)
        schedule = "1f1b" if num_chunks == 1 else "interleaved"
        entries: list[Entry] = []
        for count in (0, 1, 2, 3):
            rule = CellRule(full=(count, count))
            less = entries[-1] if entries else None
            entries.append(
                Entry(schedule=schedule, num_chunks=num_chunks, group_size=None, floor_ns=0, rule=rule, less=less)
            )
        contest = Contest(
            entries,
            lambda entry: replace(
                make_problem(request, schedule=schedule), request=replace(request, cell_rule=entry.rule)
            ),
            began=now_s(),
            memory_limit_bytes=None,
            time_limit_s=60.0,
            progress=None,
        )
        for entry in entries:
            contest._enter(entry)
        turns.clear()
        contest._look_at_numbers()
        return sorted(entries.index(entry) for entry in turns)

    assert numbers_with_a_turn(2, 2) == [0, 1]
    assert numbers_with_a_turn(2, 1) == [0, 1, 2]
