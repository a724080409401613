from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evenflow.baselines.quick_tune import quick_tune, with_full_only
from evenflow.errors import InputError
from evenflow.model import FULL, NONE, EndBlock, Layer, LayerRun, Mode, Network, Plan, cells
from evenflow.profiles.layer_file import read_layer_file
from evenflow.simulate import simulate
from tests.paths import EXAMPLES
from tests.solve.exhaustive import Case, every_plan
from tests.strategies import FamilySizes, networks


def by_the_guide(layer_ns, num_layers, *, head_ns=0, tail_ns=0):
    """A network of the SAPP guide's conventions: a backward takes two forwards, full recomputation one more."""
    modes = {
        NONE: Mode(activation_bytes=10, backward_ns=2 * layer_ns),
        FULL: Mode(activation_bytes=1, backward_ns=3 * layer_ns),
    }
    layer = Layer(name="layer", forward_ns=layer_ns, parameter_bytes=100, modes=modes)
    return Network(
        name="guide",
        runs=(LayerRun(layer=layer, count=num_layers),),
        head=EndBlock(forward_ns=head_ns, backward_ns=2 * head_ns),
        tail=EndBlock(forward_ns=tail_ns, backward_ns=2 * tail_ns),
    )


def fewest_that_fit(network, layers, num_microbatches, limit):
    """Recomputed layers by rank; each is tried on its own, which is enough as a rank's memory is its own affair."""
    found = []
    for rank, count in enumerate(layers):
        for recomputed in range(count + 1):
            row = [recomputed if other == rank else 0 for other in range(len(layers))]
            plan = Plan(
                schedule="1f1b",
                num_microbatches=num_microbatches,
                layers=cells([layers]),
                recompute={FULL: cells([row])},
            )
            if simulate(network, plan).peak_memory_bytes[rank] <= limit:
                break
        found.append(recomputed)
    return found


def counts(step):
    plan = step.simulation.plan
    return [plan.count(FULL, 0, rank) for rank in range(plan.num_ranks)]


@st.composite
def problems(draw, *, max_layers=20):
    """A network with full recomputation on 2 or 4 ranks, and a limit between all and nothing recomputed."""
    network = draw(networks(max_layers=max_layers).filter(lambda drawn: FULL in drawn.kinds and drawn.num_layers >= 4))
    num_ranks, num_microbatches = draw(st.sampled_from([2, 4])), draw(st.integers(1, 6))
    free = quick_tune(network, num_ranks=num_ranks, num_microbatches=num_microbatches, memory_limit_bytes=None)[0]
    most = max(free.simulation.peak_memory_bytes)
    assume(most > 0)
    return network, num_ranks, num_microbatches, draw(st.integers(max(1, most // 3), most))


@given(problem=problems())
def test_every_step_is_one_of_the_rule(problem):
    network, num_ranks, num_microbatches, limit = problem
    steps = quick_tune(
        network, num_ranks=num_ranks, num_microbatches=num_microbatches, memory_limit_bytes=limit
    )  # fmt: skip
    even = list(steps[0].simulation.plan.layers[0])
    assert max(even) - min(even) <= 1
    assert counts(steps[0]) == [0] * num_ranks
    needed = fewest_that_fit(network, even, num_microbatches, limit)
    filled = [step for step in steps if list(step.simulation.plan.layers[0]) == even]
    assert counts(filled[-1]) == needed
    moves = steps[len(filled) :]
    assert not moves or (num_ranks == 4 and filled[-1].simulation.fits(limit))
    for before, after in zip([filled[-1], *moves], moves, strict=False):
        assert after.simulation.fits(limit)
        assert after.spread_ns < before.spread_ns
        now, then = after.simulation.plan.layers[0], before.simulation.plan.layers[0]
        assert sorted(a - b for a, b in zip(now, then, strict=True)) == [-1, *[0] * (num_ranks - 2), 1]
        assert counts(after) == fewest_that_fit(network, list(now), num_microbatches, limit)
    for step in steps:
        again = simulate(network, step.simulation.plan)
        assert (again.makespan_ns, again.peak_memory_bytes) == (
            step.simulation.makespan_ns, step.simulation.peak_memory_bytes
        )  # fmt: skip


@given(
    layer_ns=st.integers(1, 1000), num_layers=st.integers(4, 16), head_ns=st.integers(0, 3000),
    tail_ns=st.integers(0, 3000), limit=st.integers(200, 900), num_ranks=st.sampled_from([2, 4]),
)  # fmt: skip
def test_stage_times_are_the_guides_formula(layer_ns, num_layers, head_ns, tail_ns, limit, num_ranks):
    network = by_the_guide(layer_ns, num_layers, head_ns=head_ns, tail_ns=tail_ns)
    for step in quick_tune(network, num_ranks=num_ranks, num_microbatches=4, memory_limit_bytes=limit):
        ends = [head_ns, *[0] * (num_ranks - 2), tail_ns]
        for rank, (end_ns, recomputed) in enumerate(zip(ends, counts(step), strict=True)):
            layers = step.simulation.plan.layers[0][rank]
            assert step.stage_ns[rank] == 3 * (layer_ns * layers + end_ns) + recomputed * layer_ns


def test_a_head_of_three_layers_is_moved_away_from():
    # 8 layers of 10 ns on 4 ranks, a head of 20 ns. Stage times 3 * (20 + 20) = 120, 60, 60, 60; a layer away from rank
    # 0 leaves 90, 90, 60, 60, and nothing evens out a spread of 30 further: one layer is worth 30.
    steps = quick_tune(by_the_guide(10, 8, head_ns=20), num_ranks=4, num_microbatches=4, memory_limit_bytes=None)
    assert [step.stage_ns for step in steps] == [(120, 60, 60, 60), (90, 90, 60, 60)]
    assert steps[-1].simulation.plan.layers == ((1, 3, 2, 2),)


def test_a_layer_does_not_move_to_where_it_does_not_fit():
    # As above, but a third layer on a rank takes 300 bytes of parameters. Rank 0 holds 280 bytes at the start.
    steps = quick_tune(by_the_guide(10, 8, head_ns=20), num_ranks=4, num_microbatches=4, memory_limit_bytes=290)
    assert [step.stage_ns for step in steps] == [(120, 60, 60, 60)]


def test_two_ranks_keep_their_layers():
    network = by_the_guide(10, 8, head_ns=100)
    steps = quick_tune(network, num_ranks=2, num_microbatches=4, memory_limit_bytes=None)
    assert [step.simulation.plan.layers for step in steps] == [((4, 4),)]


def test_recomputation_is_the_least_that_fits():
    # Rank 0 holds 4 layers of 100 bytes and two microbatches: 480 bytes. Each recomputed layer saves 2 * 9 of them.
    steps = quick_tune(by_the_guide(10, 8), num_ranks=2, num_microbatches=4, memory_limit_bytes=450)
    assert [counts(step) for step in steps] == [[0, 0], [2, 0]]
    assert steps[-1].simulation.peak_memory_bytes == (444, 440)
    assert steps[-1].change == "recompute 2 on rank 0"


def test_without_an_answer_the_last_step_is_over_the_limit():
    steps = quick_tune(by_the_guide(10, 8), num_ranks=2, num_microbatches=4, memory_limit_bytes=405)
    assert counts(steps[-1]) == [4, 4]
    assert not steps[-1].simulation.fits(405)


@given(problem=problems(max_layers=7))
def test_no_plan_of_the_rule_beats_the_best_of_all_plans(problem):
    network, num_ranks, num_microbatches, limit = problem
    network = with_full_only(network)
    case = Case(
        network=network,
        sizes=FamilySizes(family="1f1b", num_ranks=num_ranks, num_chunks=1, num_microbatches=num_microbatches),
    )
    assume(case.num_plans() <= 3000)
    last = quick_tune(
        network, num_ranks=num_ranks, num_microbatches=num_microbatches, memory_limit_bytes=limit
    )[-1].simulation  # fmt: skip
    best = every_plan(case).best_ns(limit)
    if last.fits(limit):
        assert best is not None
        assert best <= last.makespan_ns


def test_what_the_rule_cannot_do_is_refused():
    network = by_the_guide(10, 8)
    sizes = {"num_microbatches": 4, "memory_limit_bytes": None}
    for num_ranks in (0, 1, 3, 8):
        with pytest.raises(InputError, match="ranks must be 2 or 4"):
            quick_tune(network, num_ranks=num_ranks, **sizes)
    with pytest.raises(InputError, match="one for each cell"):
        quick_tune(by_the_guide(10, 3), num_ranks=4, **sizes)
    with pytest.raises(InputError, match="memory_recompute"):
        quick_tune(read_layer_file(EXAMPLES / "llama2_175b.json"), num_ranks=4, **sizes)


def test_a_network_without_memory_has_no_limit():
    network = replace(by_the_guide(10, 8), has_memory=False)
    steps = quick_tune(network, num_ranks=2, num_microbatches=4, memory_limit_bytes=1)
    assert [counts(step) for step in steps] == [[0, 0]]
