"""Plans with pairs for which all chunks of a rank hold equally many layers with experts."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import (
    FULL,
    NONE,
    Abilities,
    EndBlock,
    Halves,
    Layer,
    LayerRun,
    Mode,
    Network,
    PassHalves,
    RankTraits,
    Recomputation,
    Request,
    Scope,
    Sizes,
)
from evenflow.solve.bounds.equal_chunks_bound import equal_chunks_bound_ns
from evenflow.solve.equal_pairs import dense_layers, equal_cut, first_numbers
from evenflow.solve.for_target import solve_for_target
from evenflow.solve.plan import solve
from evenflow.solve.requests import ContestSearch

PAIRED = "interleaved-overlap"
ABILITIES = Abilities(
    schedules=("1f1b", "interleaved"),
    equal_pairs=PAIRED,
    recomputation=(Recomputation(scope=Scope.LAYERS, kinds=(FULL,)),),
)


def layer(exchange_ns: int, *, activation: int = 4) -> Layer:
    half = PassHalves(dispatch_ns=exchange_ns, mlp_ns=300, combine_ns=exchange_ns)
    backward = PassHalves(dispatch_ns=exchange_ns, mlp_ns=600, combine_ns=exchange_ns)
    forward_ns = 600 + 2 * exchange_ns
    return Layer(
        name="layer",
        forward_ns=forward_ns,
        parameter_bytes=10,
        modes={
            NONE: Mode(activation_bytes=activation, backward_ns=2 * forward_ns),
            FULL: Mode(activation_bytes=1, backward_ns=3 * forward_ns),
        },
        halves=Halves(forward=half, backward=backward),
    )


def network(dense: int, experts: int) -> Network:
    runs = [LayerRun(layer=layer(0), count=dense)] if dense else []
    return Network(
        name="model",
        runs=(*runs, LayerRun(layer=layer(200), count=experts)),
        tail=EndBlock(name="loss", forward_ns=150, backward_ns=300),
    )


def request(dense: int, experts: int, *, ranks: int = 2, memory: int | None = None) -> Request:
    sizes = Sizes(num_ranks=ranks, num_chunks=2, num_microbatches=4)
    return Request(network=network(dense, experts), sizes=sizes, memory_limit_bytes=memory, allow_empty=False)


def search(seconds: float = 10.0) -> ContestSearch:
    return ContestSearch(time_limit_s=seconds, num_chunks=(2,))


@pytest.mark.parametrize(("dense", "experts", "memory"), [(0, 8, None), (1, 8, None), (0, 8, 90), (1, 12, 130)])
def test_the_best_cut_is_that_of_all_equal_ones(dense: int, experts: int, memory: int | None) -> None:
    asked = request(dense, experts, memory=memory)
    best = solve_for_target(asked, ABILITIES, search(), title="it", schedules=(PAIRED,))
    steps = []
    for first in range(1, experts // 2):
        cut = equal_cut(dense, (first, experts // 2 - first), 2)
        outcome = solve(replace(asked, layers=cut), schedule=PAIRED, time_limit_s=5)
        steps += [] if outcome.makespan_ns is None else [outcome.makespan_ns]
    assert best.outcome.makespan_ns == min(steps)
    assert best.lower_bound_ns <= min(steps)
    plan = best.outcome.plan
    assert plan is not None
    assert plan.layers[0][0] - dense == plan.layers[1][0]
    assert plan.layers[0][1] == plan.layers[1][1]
    assert not best.outcome.restrictions.fixed_layers


def test_the_bound_holds_for_every_cut() -> None:
    """Also for cuts that are not equal, whose plans the framework cannot run."""
    asked = request(0, 6, memory=80)
    best = solve_for_target(asked, ABILITIES, search(), title="it", schedules=(PAIRED,))
    free = solve(asked, schedule=PAIRED, time_limit_s=10)
    assert free.makespan_ns is not None
    assert best.lower_bound_ns <= free.makespan_ns


def test_other_schedules_compete() -> None:
    best = solve_for_target(request(0, 8), ABILITIES, search(), title="it")
    alone = solve_for_target(request(0, 8), replace(ABILITIES, equal_pairs=None), search(), title="it")
    assert best.best is not None
    assert best.best.schedule == PAIRED
    assert best.outcome.makespan_ns is not None
    assert alone.outcome.makespan_ns is not None
    assert best.outcome.makespan_ns < alone.outcome.makespan_ns
    assert {each.schedule for each in best.candidates} == {PAIRED, "interleaved"}
    assert best.lower_bound_ns <= best.outcome.makespan_ns


def test_without_exchanges_nothing_changes() -> None:
    dense = replace(network(0, 8), runs=(LayerRun(layer=layer(0), count=8),))
    asked = replace(request(0, 8), network=dense)
    best = solve_for_target(asked, ABILITIES, search(), title="it")
    assert PAIRED not in {each.schedule for each in best.candidates}


@pytest.mark.parametrize("experts", [7, 2])
def test_a_model_without_such_a_cut_is_refused_where_pairs_are_asked_for(experts: int) -> None:
    with pytest.raises(InputError, match="must have cuts of which all chunks of a rank hold equally many layers"):
        solve_for_target(request(0, experts), ABILITIES, search(), title="it", schedules=(PAIRED,))


def test_layers_without_experts_come_first() -> None:
    assert dense_layers(network(3, 4)) == 3
    assert dense_layers(network(0, 4)) == 0
    last = replace(network(0, 4), runs=(LayerRun(layer=layer(9), count=4), LayerRun(layer=layer(0), count=1)))
    assert dense_layers(last) is None
    assert dense_layers(replace(last, runs=last.runs[1:])) is None


@settings(max_examples=200)
@given(st.integers(1, 200), st.integers(1, 16), st.integers(2, 5))
def test_first_numbers_add_up_and_are_as_equal_as_can_be(experts: int, ranks: int, chunks: int) -> None:
    numbers = first_numbers(experts, ranks, chunks)
    if numbers is None:
        assert experts % chunks or experts // chunks < ranks
        return
    assert chunks * sum(numbers) == experts
    assert 1 <= min(numbers) <= max(numbers) <= min(numbers) + 1


def test_cells_of_a_cut_have_all_layers() -> None:
    for dense, numbers, chunks in product((0, 2), ((1, 2), (3, 1, 1)), (2, 3)):
        cut = equal_cut(dense, numbers, chunks)
        assert sum(map(sum, cut)) == dense + chunks * sum(numbers)


@pytest.mark.parametrize(("dense", "experts", "ranks"), [(0, 8, 2), (1, 8, 2), (2, 6, 2), (0, 8, 3), (1, 10, 3)])
def test_no_equal_cut_is_shorter_than_their_bound(dense: int, experts: int, ranks: int) -> None:
    asked = request(dense, experts, ranks=ranks)
    asked = replace(asked, sizes=replace(asked.sizes, num_microbatches=2 * ranks))
    steps = []
    for numbers in product(range(1, experts // 2), repeat=ranks):
        if 2 * sum(numbers) == experts:
            outcome = solve(replace(asked, layers=equal_cut(dense, numbers, 2)), schedule=PAIRED, time_limit_s=5)
            steps.append(outcome.makespan_ns or 0)
    bound_ns = equal_chunks_bound_ns(asked.network, asked.sizes, dense=dense)
    assert 0 < bound_ns <= min(steps)


def test_the_bound_is_met_where_nothing_is_saved_or_waited_for() -> None:
    """A nanosecond more would be wrong."""
    sizes = Sizes(num_ranks=1, num_chunks=2, num_microbatches=3)
    plain = replace(network(0, 6), runs=(LayerRun(layer=layer(0), count=6),))
    outcome = solve(Request(network=plain, sizes=sizes), schedule=PAIRED, time_limit_s=5)
    assert equal_chunks_bound_ns(plain, sizes, dense=0) == outcome.makespan_ns


def test_many_dense_layers_in_the_first_stage_are_bounded_by_it() -> None:
    asked = request(12, 8)
    bound_ns = equal_chunks_bound_ns(asked.network, asked.sizes, dense=12)
    dense = asked.network.layers[0]
    assert bound_ns >= 4 * 12 * (dense.forward_ns + dense.backward_ns) - 4 * 12 * 400  # what MLPs of others hide under


def test_blocks_that_predict_further_tokens_are_in_the_last_chunk_behind_one_with_experts() -> None:
    """As many layers in all chunks of a rank, these blocks among them; cuts against all that there are."""
    plain = network(1, 9)
    further = replace(plain.runs[-1].layer, is_mtp=True)
    model = replace(plain, runs=(*plain.runs, LayerRun(layer=further, count=1)))
    asked = replace(request(1, 9), network=model)
    best = solve_for_target(asked, ABILITIES, search(), title="it", schedules=(PAIRED,))
    assert best.outcome.plan is not None
    steps = [
        solve(replace(asked, layers=equal_cut(1, (first, 5 - first), 2)), schedule=PAIRED).makespan_ns
        for first in range(1, 4)  # the last chunk holds two or more
    ]
    assert best.outcome.makespan_ns == min(steps)
    assert best.outcome.plan.mtp_layers == 1
    assert best.outcome.plan.layers[1][1] >= 2


def test_ranks_that_are_not_alike_are_tried_in_every_order() -> None:
    ranks = (RankTraits(speed=1.0), RankTraits(speed=0.8), RankTraits(speed=0.5))
    asked = request(1, 10, ranks=3)
    asked = replace(asked, network=replace(asked.network, ranks=ranks))
    best = solve_for_target(asked, ABILITIES, replace(search(), place_ranks=1), title="it", schedules=(PAIRED,))
    orders = {each.rank_order for each in best.candidates}
    assert len(orders) == 6
    steps = {
        (order, numbers): solve(
            replace(
                asked,
                network=replace(asked.network, ranks=tuple(ranks[own] for own in order)),
                layers=equal_cut(1, numbers, 2),
            ),
            schedule=PAIRED,
        ).makespan_ns
        for order in orders
        for numbers in ((1, 1, 3), (1, 2, 2), (1, 3, 1), (2, 1, 2), (2, 2, 1), (3, 1, 1))
    }
    assert best.outcome.makespan_ns == min(filter(None, steps.values()))
    in_this_order = [step_ns for (order, _numbers), step_ns in steps.items() if order == best.outcome.rank_order]
    assert best.outcome.makespan_ns in in_this_order
