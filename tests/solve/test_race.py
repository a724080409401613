"""`plan` against every plan there is, and the laws that optima obey."""

from dataclasses import replace

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from evenflow.model import EndBlock, Layer, LayerRun, Mode, Network
from evenflow.simulate import simulate
from evenflow.solve import Outcome, Status, plan
from evenflow.units import MEGABYTE
from tests.networks import MILLISECOND
from tests.solve.cases import NO_SHRINKING, SECONDS, TOLERANCE, cases, without_kind
from tests.solve.exhaustive import Case, Plans, every_plan
from tests.strategies import FamilySizes
from tests.thoroughness import examples


def solve(case: Case, limit: int | None, *, time_limit_s: float = SECONDS) -> Outcome:
    return plan(case.network, memory_limit_bytes=limit, time_limit_s=time_limit_s, **case.arguments)


def check(case: Case, plans: Plans, limit: int | None, outcome: Outcome) -> None:
    """The outcome is what trying every plan says it must be."""
    best = plans.best_ns(limit)
    if best is None:
        assert outcome.status is Status.INFEASIBLE
        assert outcome.simulation is None
        reason = outcome.infeasibility
        assert 0 <= reason.rank < case.sizes.num_ranks
        assert reason.proven
        assert reason.smallest_limit_bytes == plans.least_bytes
        return
    assert outcome.status is Status.OPTIMAL
    assert best <= outcome.makespan_ns <= best * (1 + TOLERANCE)
    assert best * (1 - 2 * TOLERANCE) <= outcome.lower_bound_ns <= best
    check_evidence(case, limit, outcome)


def check_evidence(case: Case, limit: int | None, outcome: Outcome) -> None:
    """Bound, figures, memory and rules of an outcome with a plan."""
    assert 0 <= outcome.lower_bound_ns <= outcome.makespan_ns
    again = simulate(case.network, outcome.plan, communication=case.communication)
    assert again.makespan_ns == outcome.makespan_ns
    assert limit is None or max(again.peak_memory_bytes) <= limit
    found = outcome.plan
    assert found.num_layers == case.network.num_layers
    for chunk, row in enumerate(found.layers):
        for rank, layers in enumerate(row):
            assert layers >= (0 if case.allow_empty else 1)
            if not case.mix_any:
                assert min(found.count("select", chunk, rank), found.count("comm", chunk, rank)) == 0


@given(data=st.data())
@settings(max_examples=examples(25), phases=NO_SHRINKING)
def test_plan_equals_trying_everything(data):
    case = data.draw(cases(time=MILLISECOND, memory=MEGABYTE + 7, any_order=False))
    plans = every_plan(case)
    limits = [None, *plans.limits(), plans.least_bytes - 1]
    limit = data.draw(st.sampled_from(limits))
    assume(limit is None or limit > 0)
    best = plans.best_ns(limit)
    event("infeasible" if best is None else f"binds: {best != plans.best_ns(None)}")
    check(case, plans, limit, solve(case, limit))


@pytest.mark.parametrize("family", ["zbv", "v-min"])
def test_on_a_v_the_first_rank_has_both_ends_of_the_network(family: str):
    """7 layers of two kinds on 2 ranks x 2 chunks with a long head and tail, under every limit that matters."""

    def layer(name: str, scale: int) -> Layer:
        whole = Mode(activation_bytes=4 * scale * MEGABYTE, backward_ns=2 * scale * MILLISECOND)
        full = Mode(activation_bytes=scale * MEGABYTE, backward_ns=3 * scale * MILLISECOND)
        return Layer(
            name=name,
            forward_ns=scale * MILLISECOND,
            parameter_bytes=3 * scale * MEGABYTE,
            modes={"none": whole, "full": full},
        )

    end = EndBlock(
        forward_ns=2 * MILLISECOND, backward_ns=4 * MILLISECOND, parameter_bytes=9 * MEGABYTE, activation_bytes=MEGABYTE
    )
    network = Network(
        name="ends",
        runs=(LayerRun(layer=layer("small", 1), count=4), LayerRun(layer=layer("large", 2), count=3)),
        head=end,
        tail=end,
    )
    case = Case(network=network, sizes=FamilySizes(family=family, num_ranks=2, num_chunks=2, num_microbatches=5))
    plans = every_plan(case)
    free = solve(case, None)
    check(case, plans, None, free)
    (first, _), (last, _) = free.plan.layers
    assert first + last < network.num_layers / 2
    for limit in plans.limits():
        check(case, plans, limit, solve(case, limit))


@given(data=st.data())
@settings(max_examples=examples(15), phases=NO_SHRINKING)
def test_just_enough_memory_gives_a_plan_and_one_byte_less_gives_the_limit(data):
    case = data.draw(cases(time=MILLISECOND, memory=MEGABYTE + 7, any_order=False))
    plans = every_plan(case)
    assume(plans.least_bytes > 1)
    outcome = solve(case, plans.least_bytes - 1)
    check(case, plans, plans.least_bytes - 1, outcome)
    check(case, plans, plans.least_bytes, solve(case, plans.least_bytes))


def one_layer(*, forward_ns: int = MILLISECOND, **modes: tuple[int, int]) -> Layer:
    return Layer(
        name="drawn by hand", forward_ns=forward_ns, parameter_bytes=0,
        modes={kind: Mode(activation_bytes=kept, backward_ns=took) for kind, (kept, took) in modes.items()},
    )  # fmt: skip


def test_the_kind_that_keeps_least_may_differ_from_layer_to_layer():
    """One layer is smallest under full, the other under a user's kind: only a cell that mixes them fits."""
    plain, small, large = (100 * MEGABYTE, 2_000_000), (10 * MEGABYTE, 3_000_000), (60 * MEGABYTE, 3_000_000)
    first, second = one_layer(none=plain, full=small, later=large), one_layer(none=plain, full=large, later=small)
    network = Network(name="two", runs=(LayerRun(layer=first, count=1), LayerRun(layer=second, count=1)))
    outcome = plan(network, num_ranks=1, num_microbatches=1, memory_limit_bytes=25 * MEGABYTE, time_limit_s=SECONDS)
    assert outcome.status is Status.OPTIMAL
    assert outcome.makespan_ns == 8_000_000
    assert max(outcome.simulation.peak_memory_bytes) == 20 * MEGABYTE


def test_a_step_of_a_few_nanoseconds_is_proven_too():
    """Makespans are whole: a bound of 179 ns proves a plan of 180 ns when 179 ns itself is refuted."""
    network = Network(name="short", runs=(LayerRun(layer=one_layer(forward_ns=10, none=(1, 20)), count=4),))
    outcome = plan(network, num_ranks=2, num_microbatches=2, time_limit_s=3.0)
    assert outcome.makespan_ns == 3 * 60
    assert outcome.status is Status.OPTIMAL


@given(data=st.data())
@settings(max_examples=examples(8), phases=NO_SHRINKING)
def test_scaling_all_times_scales_the_optimum(data):
    case = data.draw(cases(time=MILLISECOND, memory=MEGABYTE, any_order=False))
    assume(case.sizes.sequence_splits == 1)  # a part of a sequence is rounded to nanoseconds
    plans = every_plan(case)
    limit = data.draw(st.sampled_from(plans.limits()))
    factor = data.draw(st.integers(2, 50))
    scaled = replace(case, network=scale_times(case.network, factor), message_ns=factor * case.message_ns)
    one, many = solve(case, limit), solve(scaled, limit)
    assert one.status is many.status is Status.OPTIMAL
    assert abs(many.makespan_ns - factor * one.makespan_ns) <= TOLERANCE * many.makespan_ns


def scale_times(network: Network, factor: int) -> Network:
    def scaled(stated_ns: int | None) -> int | None:
        return None if stated_ns is None else factor * stated_ns

    def layer(old: Layer) -> Layer:
        modes = {kind: replace(mode, backward_ns=factor * mode.backward_ns) for kind, mode in old.modes.items()}
        return replace(
            old, forward_ns=factor * old.forward_ns, modes=modes, stated_weight_ns=scaled(old.stated_weight_ns)
        )

    def block(old: EndBlock) -> EndBlock:
        return replace(
            old,
            forward_ns=factor * old.forward_ns,
            backward_ns=factor * old.backward_ns,
            stated_weight_ns=scaled(old.stated_weight_ns),
        )

    runs = tuple(replace(run, layer=layer(run.layer)) for run in network.runs)
    return replace(network, runs=runs, head=block(network.head), tail=block(network.tail))


@given(data=st.data())
@settings(max_examples=examples(8), phases=NO_SHRINKING)
def test_more_memory_and_more_kinds_never_worsen_an_optimum(data):
    case = data.draw(cases(time=MILLISECOND, memory=MEGABYTE, any_order=False))
    assume(len(case.split.kinds) > 1)
    plans = every_plan(case)
    limits = plans.limits()
    limit, more = sorted((data.draw(st.sampled_from(limits)), data.draw(st.sampled_from(limits))))
    tight, loose = solve(case, limit), solve(case, more)
    assert tight.status is loose.status is Status.OPTIMAL
    assert loose.makespan_ns <= tight.makespan_ns * (1 + TOLERANCE)
    kind = data.draw(st.sampled_from(case.split.kinds[:-1]))
    without = solve(replace(case, network=without_kind(case.network, kind)), limit)
    assert without.status in (Status.OPTIMAL, Status.INFEASIBLE)
    if without.status is Status.OPTIMAL:
        assert tight.makespan_ns <= without.makespan_ns * (1 + TOLERANCE)
