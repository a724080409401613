"""Partition and order in alternation."""

from dataclasses import replace

import pytest

from evenflow.errors import InputError
from evenflow.model import (
    ANY_CONTENT,
    FULL,
    NONE,
    EndBlock,
    HostLink,
    Layer,
    LayerRun,
    Mode,
    Network,
    Request,
    Sizes,
    with_offload,
)
from evenflow.profiles.layer_file import read_layer_file
from evenflow.schedule import Op, schedule_of
from evenflow.simulate import simulate
from evenflow.solve import Status, plan
from evenflow.solve.best import plan_best
from evenflow.solve.clock import reproducible
from evenflow.solve.order.alternate import plan_any_order, solve_any_order
from evenflow.solve.order.ordered_outcome import OrderedOutcome
from evenflow.solve.problem import problem_of_order
from tests.paths import EXAMPLES
from tests.solve.recomputation import layers_that_could_recompute_less


def network(layers: int = 10) -> Network:
    layer = Layer(
        name="layer",
        forward_ns=1000,
        parameter_bytes=50,
        modes={NONE: Mode(activation_bytes=60, backward_ns=2100), FULL: Mode(activation_bytes=9, backward_ns=3050)},
    )
    return Network(
        name="small",
        runs=(LayerRun(layer=layer, count=layers),),
        head=EndBlock(forward_ns=200, backward_ns=300, parameter_bytes=70),
        tail=EndBlock(forward_ns=900, backward_ns=1700, parameter_bytes=80),
    )


@pytest.mark.parametrize("split", [False, True])
def test_a_plan_in_its_own_order_is_no_longer_than_that_of_a_family(split: bool):
    outcome = plan_any_order(
        network(), num_ranks=4, num_microbatches=8, memory_limit_bytes=650, split_backward=split, time_limit_s=4.0
    )
    assert isinstance(outcome, OrderedOutcome)
    assert outcome.plan is not None
    assert outcome.makespan_ns <= outcome.family.makespan_ns
    again = simulate(network(), outcome.plan)
    assert again.makespan_ns == outcome.makespan_ns
    assert again.fits(650)
    assert outcome.lower_bound_ns <= outcome.order_lower_bound_ns <= outcome.makespan_ns
    assert split or Op.W not in schedule_of(outcome.plan).used_ops
    assert "% less than the best plan of a family" in outcome.summary()
    sizes = Sizes(num_ranks=4, num_microbatches=8)
    request = Request(network=network(), sizes=sizes, memory_limit_bytes=650)
    problem = problem_of_order(request, schedule_of(outcome.plan))
    assert layers_that_could_recompute_less(problem, outcome.plan) == []


def test_kept_layers_are_kept():
    kept = ((3, 3, 2, 2),)
    outcome = plan_any_order(network(), num_ranks=4, num_microbatches=6, layers=kept, time_limit_s=2.0)
    assert outcome.plan is not None
    assert outcome.plan.layers == kept


def test_several_chunks():
    outcome = plan_any_order(
        network(), num_ranks=2, num_chunks=2, num_microbatches=5, memory_limit_bytes=1200, time_limit_s=3.0
    )
    assert isinstance(outcome, OrderedOutcome)
    assert outcome.plan is not None
    assert outcome.makespan_ns <= outcome.family.makespan_ns
    assert simulate(network(), outcome.plan).fits(1200)


def test_interleaved_orders_start_in_promising_groups_too():
    sizes = {"num_ranks": 4, "num_chunks": 2, "num_microbatches": 11, "memory_limit_bytes": 1400}
    in_sixes = plan(network(16), schedule="interleaved", group_size=6, time_limit_s=20.0, **sizes)
    assert in_sixes.status is Status.OPTIMAL  # in the usual groups of four it takes 3 % more
    outcome = plan_any_order(network(16), time_limit_s=5.0, **sizes)
    assert isinstance(outcome, OrderedOutcome)
    assert outcome.family.makespan_ns <= in_sixes.makespan_ns


def test_pairs_are_tried_where_they_save_time():
    model = read_layer_file(EXAMPLES / "dense_and_experts.json")
    outcome = plan_any_order(model, num_ranks=4, num_chunks=2, num_microbatches=8, time_limit_s=4.0)
    assert isinstance(outcome, OrderedOutcome)
    assert outcome.plan is not None
    assert schedule_of(outcome.plan).has_pairs
    best = plan_best(model, num_ranks=4, num_chunks=[2], num_microbatches=8, families=["interleaved-overlap"])
    assert best.outcome.makespan_ns is not None
    assert outcome.lower_bound_ns <= outcome.order_lower_bound_ns <= outcome.makespan_ns <= best.outcome.makespan_ns
    request = Request(network=model, sizes=Sizes(num_ranks=4, num_chunks=2, num_microbatches=8))
    in_turn = solve_any_order(request, in_pairs=False, time_limit_s=4.0)
    assert in_turn.plan is not None
    assert not schedule_of(in_turn.plan).has_pairs
    assert in_turn.lower_bound_ns > outcome.lower_bound_ns


def test_what_no_order_can_hold_is_infeasible_with_the_smallest_limit():
    sizes = {"num_ranks": 4, "num_microbatches": 8, "time_limit_s": 2.0}
    outcome = plan_any_order(network(), memory_limit_bytes=160, **sizes)
    assert outcome.status is Status.INFEASIBLE
    assert outcome.infeasibility is not None
    # Layers 2, 3, 3, 2, all recomputed, one microbatch at a time: the last rank binds, with the tail.
    assert outcome.infeasibility.smallest_limit_bytes == 2 * (50 + 9) + 80
    again = plan_any_order(network(), memory_limit_bytes=198, **sizes)
    assert plan(network(), schedule="1f1b", memory_limit_bytes=198, **sizes).status is Status.INFEASIBLE
    assert again.plan is not None
    assert simulate(network(), again.plan).fits(198)


def test_sizes_without_any_family_are_refused():
    with pytest.raises(InputError, match=r"body layers of .* must be at least"):
        plan_any_order(network(3), num_ranks=4, num_microbatches=8, time_limit_s=1.0, allow_empty=False)


def test_copies_are_counted_in_every_order_and_the_best_of_the_links_is_taken():
    links = [HostLink(bytes_per_s=10**8, ahead=count, behind=count) for count in (1, 2)]
    moving = with_offload(network(), links[0])
    limit = 400
    request = Request(
        network=moving, sizes=Sizes(num_ranks=4, num_microbatches=8), memory_limit_bytes=limit, cell_rule=ANY_CONTENT
    )
    with reproducible():
        alone = [solve_any_order(request, split_backward=True, host_links=[link], time_limit_s=2.0) for link in links]
        outcome = solve_any_order(request, split_backward=True, host_links=links, time_limit_s=4.0)
    assert outcome.simulation is not None
    assert outcome.plan is not None
    assert any(map(any, outcome.plan.recompute["offload"]))
    link = outcome.simulation.network.host_link
    assert link in links
    again = simulate(replace(moving, host_link=link), outcome.plan)
    assert again.makespan_ns == outcome.makespan_ns <= 1.01 * min(each.makespan_ns or 0 for each in alone)
    assert again.fits(limit)
    assert outcome.lower_bound_ns == min(each.lower_bound_ns for each in alone) <= outcome.makespan_ns
