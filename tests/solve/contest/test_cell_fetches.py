"""Fetches that are ahead by a number of their own in each cell: what bounds them, and plans that make use of them."""

from dataclasses import replace

from hypothesis import event, given, settings
from hypothesis import strategies as st

from evenflow import reproducible
from evenflow.model import ANY_CONTENT, FULL, NONE, HostLink, Layer, LayerRun, Mode, Network, Request, Sizes
from evenflow.solve import Status
from evenflow.solve.best import solve_variants
from evenflow.solve.contest.cell_fetches import soonest_back
from evenflow.solve.proof import TOLERANCE
from evenflow.solve.requests import ContestSearch
from evenflow.units import MEGABYTE
from tests.networks import MILLISECOND
from tests.solve.cases import NO_SHRINKING, drawn_counts
from tests.solve.test_offload import offloads
from tests.thoroughness import examples


@given(data=st.data(), behind=st.integers(1, 3))
@settings(max_examples=examples(60), deadline=None, phases=NO_SHRINKING)
def test_no_plan_takes_longer_or_holds_more_where_copies_take_no_time_and_are_back_at_last(data, behind):
    case = data.draw(offloads())
    link = replace(case.network.host_link, behind=behind)
    problem = replace(case, network=replace(case.network, host_link=link)).problem()
    if problem.host_link is None:
        return
    easier = soonest_back(problem)
    counts = drawn_counts(data, problem, data.draw(st.sampled_from(case.cuts())))
    own, least = problem.costs(counts), easier.costs(counts)
    assert easier.makespan_ns(least) <= problem.makespan_ns(own)
    held, least_held = problem.rank_memory(own), easier.rank_memory(least)
    assert (least_held <= held).all()
    event(f"holds less: {bool((least_held < held).any())}")


def full_everywhere() -> Request:
    """Three ranks with two chunks each, so full that what comes back early on one cell must come late on others."""
    kept, forward_ns = 42 * MEGABYTE, 5 * MILLISECOND
    modes = {
        NONE: Mode(activation_bytes=kept, backward_ns=2 * forward_ns),
        FULL: Mode(activation_bytes=kept // 10, backward_ns=3 * forward_ns),
        "host": Mode(activation_bytes=0, offloaded_bytes=kept, backward_ns=2 * forward_ns),
    }
    layer = Layer(name="layer", forward_ns=forward_ns, parameter_bytes=5 * MEGABYTE, modes=modes)
    return Request(
        network=Network(
            name="full", runs=(LayerRun(layer=layer, count=12),), host_link=HostLink(bytes_per_s=4 * 10**9, buffers=2)
        ),
        sizes=Sizes(num_ranks=3, num_chunks=2, num_microbatches=6, sequence_splits=1),
        memory_limit_bytes=157 * MEGABYTE,
        cell_rule=ANY_CONTENT,
        allow_empty=False,
    )


def test_a_number_for_each_cell_shortens_the_best_plan_with_one_for_all():
    request = full_everywhere()
    search = ContestSearch(time_limit_s=60, host_links=[request.network.host_link])
    with reproducible():
        alike = solve_variants(request, search, schedule="interleaved")
        best = solve_variants(request, replace(search, fetches_by_cell=True), schedule="interleaved")
    assert alike.outcome.status is Status.OPTIMAL
    assert alike.by_cell_bound_ns is None
    assert best.outcome.makespan_ns < alike.outcome.makespan_ns
    simulation = best.outcome.simulation
    assert max(simulation.peak_memory_bytes) <= request.memory_limit_bytes
    assert len(set(sum(simulation.network.host_link.cell_ahead, ()))) > 1
    assert best.by_cell_bound_ns <= best.outcome.makespan_ns
    assert [candidate.makespan_ns for candidate in best.candidates] == [
        best.outcome.makespan_ns,
        alike.outcome.makespan_ns,
    ]
    assert "with a number of actions ahead of its own for each cell" in best.summary()


def test_what_fits_anyway_needs_no_number_for_any_cell():
    request = replace(full_everywhere(), memory_limit_bytes=10**9)
    search = ContestSearch(time_limit_s=60, host_links=[request.network.host_link], fetches_by_cell=True)
    with reproducible():
        best = solve_variants(request, search, schedule="interleaved")
    assert best.by_cell_bound_ns >= best.outcome.makespan_ns * (1 - 2 * TOLERANCE)
    assert len(best.candidates) == 1
    assert "no number of actions ahead of its own for any cell makes a shorter plan" in best.summary()
