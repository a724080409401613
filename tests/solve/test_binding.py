"""The limits that bind, against every single change of a plan, simulated as a plan of its own."""

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import COMM, NONE, SELECT, Plan, Request, Sizes, cells
from evenflow.simulate import Simulation, simulate
from evenflow.solve import solve
from evenflow.solve.binding import binding_limits, with_binding
from evenflow.solve.outcome import BindingLimit, Outcome, Status
from evenflow.solve.problem import make_problem
from evenflow.units import MEGABYTE
from tests.networks import plain_network
from tests.solve.cases import cases
from tests.solve.exhaustive import Case
from tests.thoroughness import examples


@st.composite
def plans(draw: st.DrawFn) -> tuple[Case, Simulation]:
    """A small problem and one of its plans, cut and recomputed anyhow."""
    case = draw(cases(any_order=False))
    kinds, fewest = case.split.kinds, 0 if case.allow_empty else 1
    spare = case.network.num_layers - fewest * case.sizes.num_cells
    cuts = sorted(
        draw(st.lists(st.integers(0, spare), min_size=case.sizes.num_cells - 1, max_size=case.sizes.num_cells - 1))
    )
    counts = [fewest + after - before for before, after in zip([0, *cuts], [*cuts, spare], strict=True)]
    table = [[0] * case.sizes.num_ranks for _ in range(case.sizes.num_chunks)]
    recompute = {kind: [row[:] for row in table] for kind in kinds}
    for chunk, row in enumerate(case.schedule.stage_table.tolist()):
        for rank, stage in enumerate(row):
            table[chunk][rank] = counts[stage]
            banned = "" if case.mix_any else draw(st.sampled_from([SELECT, COMM]))
            offered = [kind for kind in kinds if kind != banned]
            for _ in range(counts[stage]):
                recompute[draw(st.sampled_from(offered))][chunk][rank] += 1
    plan = Plan(
        schedule=case.sizes.family,
        num_microbatches=case.sizes.num_microbatches,
        sequence_splits=case.sizes.sequence_splits,
        layers=cells(table),
        recompute={kind: cells(rows) for kind, rows in recompute.items() if kind != NONE},
    )
    return case, simulate(case.network, plan, communication=case.communication)


def changed(simulation: Simulation, *moves: tuple[str, int, int, int]) -> Simulation:
    """The plan with more or fewer layers under a kind in a cell: kind, chunk, rank, how many."""
    plan = simulation.plan
    layers = [list(row) for row in plan.layers]
    recompute = {kind: [list(row) for row in table] for kind, table in plan.recompute.items()}
    for kind, chunk, rank, more in moves:
        layers[chunk][rank] += more
        if kind != NONE:
            recompute[kind][chunk][rank] += more
    other = replace(plan, layers=cells(layers), recompute={kind: cells(table) for kind, table in recompute.items()})
    return simulate(simulation.network, other, communication=simulation.communication)


def mixes(case: Case, simulation: Simulation, chunk: int, rank: int) -> bool:
    plan = simulation.plan
    return not case.mix_any and bool(plan.count(SELECT, chunk, rank) and plan.count(COMM, chunk, rank))


def peaks_recomputing_less(case: Case, simulation: Simulation, rank: int) -> Iterator[int]:
    plan, table = simulation.plan, case.schedule.stage_table
    for chunk in range(plan.num_chunks):
        for old in case.split.kinds:
            for new in case.split.kinds:
                if old == new or not plan.count(old, chunk, rank):
                    continue
                other = changed(simulation, (old, chunk, rank, -1), (new, chunk, rank, 1))
                stage = table[chunk, rank]
                if other.costs.backward_ns[stage] < simulation.costs.backward_ns[stage] and not mixes(
                    case, other, chunk, rank
                ):
                    yield other.peak_memory_bytes[rank]


def peaks_taking_layer(case: Case, simulation: Simulation, rank: int, limit: int) -> Iterator[int]:
    plan = simulation.plan
    by_stage = {
        int(stage): (chunk, each)
        for chunk, row in enumerate(case.schedule.stage_table.tolist())
        for each, stage in enumerate(row)
    }
    for stage, (chunk, _) in ((stage, cell) for stage, cell in by_stage.items() if cell[1] == rank):
        for neighbour in (stage - 1, stage + 1):
            from_chunk, giver = by_stage.get(neighbour, (0, rank))
            if giver == rank or plan.layers[from_chunk][giver] <= (0 if case.allow_empty else 1):
                continue
            for lost in case.split.kinds:
                if not plan.count(lost, from_chunk, giver):
                    continue
                for kind in case.split.kinds:
                    other = changed(simulation, (lost, from_chunk, giver, -1), (kind, chunk, rank, 1))
                    shorter = other.makespan_ns < simulation.makespan_ns
                    fits_there = other.peak_memory_bytes[giver] <= limit
                    if shorter and fits_there and not mixes(case, other, chunk, rank):
                        yield other.peak_memory_bytes[rank]


@given(drawn=plans(), slack=st.integers(0, 1500))
@settings(max_examples=examples(30), deadline=None)
def test_every_single_change(drawn: tuple[Case, Simulation], slack: int):
    case, simulation = drawn
    limit = max(1, max(simulation.peak_memory_bytes) + slack)
    expected = []
    for rank in range(case.sizes.num_ranks):
        less = list(peaks_recomputing_less(case, simulation, rank))
        taken = [peak for peak in peaks_taking_layer(case, simulation, rank, limit) if peak > limit]
        if less and min(less) > limit:
            expected.append(BindingLimit(rank=rank, more_bytes=min(less) - limit, takes_layer=False))
        elif taken:
            expected.append(BindingLimit(rank=rank, more_bytes=min(taken) - limit, takes_layer=True))
    assert binding_limits(case.problem(limit), simulation.plan) == tuple(expected)


def request(limit_mb: int | None) -> Request:
    limit = None if limit_mb is None else limit_mb * MEGABYTE
    return Request(
        network=plain_network(8), sizes=Sizes(num_ranks=2, num_microbatches=4), memory_limit_bytes=limit
    )  # fmt: skip


def test_a_rank_that_recomputes_because_of_its_limit():
    # 4 layers each: 200 MB of parameters; rank 0 has two microbatches live, 1000 MB in all, rank 1 one, 600 MB.
    roomy = solve(request(1000), schedule="1f1b", time_limit_s=20)
    assert (roomy.plan.layers, roomy.binding) == (((4, 4),), ())
    # With 999 MB one layer of rank 0 recomputes; recomputing it less needs 1 MB more.
    tight = solve(request(999), schedule="1f1b", time_limit_s=20)
    assert tight.binding[0].rank == 0
    limits = binding_limits(
        make_problem(request(999), schedule="1f1b"),
        Plan(schedule="1f1b", num_microbatches=4, layers=((4, 4),), recompute={"full": ((1, 0),)}),
    )
    assert limits == (BindingLimit(rank=0, more_bytes=MEGABYTE, takes_layer=False),)


def test_a_rank_that_has_no_room_for_a_layer():
    # Without recomputation 3 and 5 layers are slower than 4 and 4, for which rank 0 needs 1000 MB.
    network = plain_network(8)
    bare = replace(
        network,
        runs=tuple(replace(run, layer=replace(run.layer, modes={NONE: run.layer.modes[NONE]})) for run in network.runs),
    )
    tight = replace(request(900), network=bare)
    outcome = solve(tight, schedule="1f1b", time_limit_s=20)
    assert outcome.plan.layers == ((3, 5),)
    assert outcome.binding == (BindingLimit(rank=0, more_bytes=100 * MEGABYTE, takes_layer=True),)
    # Layers that the caller has decided stay.
    fixed = solve(replace(tight, layers=((3, 5),)), schedule="1f1b", time_limit_s=20)
    assert fixed.binding == ()


def test_nothing_binds_without_a_limit_or_a_plan():
    assert solve(request(None), schedule="1f1b", time_limit_s=20).binding is None
    nothing = Outcome(
        status=Status.INFEASIBLE, simulation=None, lower_bound_ns=0, memory_limit_bytes=1, solve_seconds=0.0
    )
    assert with_binding(nothing, make_problem(request(1), schedule="1f1b")) is nothing
