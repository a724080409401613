"""`plan` with the layers given: the best recompute counts for that cut, against trying all of them."""

from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import Cells, Request, cells
from evenflow.solve import Status, plan
from evenflow.solve.memory.least_memory import least_memory
from evenflow.solve.search.annealing import Annealing
from evenflow.solve.start import even_start
from evenflow.units import MEGABYTE
from tests.networks import MILLISECOND, plain_network
from tests.solve.cases import NO_SHRINKING, SECONDS, TOLERANCE, cases
from tests.solve.exhaustive import Case, every_plan
from tests.thoroughness import examples


@dataclass(frozen=True, kw_only=True)
class CaseWithCut(Case):
    """A case of which only the plans with one cut count."""

    cut: tuple[int, ...]

    def cuts(self) -> list[tuple[int, ...]]:
        return [self.cut]

    def request(self, limit_bytes: int | None = None) -> Request:
        return replace(super().request(limit_bytes), layers=self.layers)

    @property
    def layers(self) -> Cells:
        counts = [end - start for start, end in pairwise(self.cut)]
        return cells([[counts[stage] for stage in row] for row in self.schedule.stage_table.tolist()])


@st.composite
def cases_with_cut(draw: st.DrawFn) -> CaseWithCut:
    """Any case under its family's order with any of its cuts."""
    case = draw(cases(time=MILLISECOND, memory=MEGABYTE + 7, any_order=False))
    return CaseWithCut(**{name: getattr(case, name) for name in Case.__dataclass_fields__},
                       cut=draw(st.sampled_from(case.cuts())))  # fmt: skip


@given(data=st.data())
@settings(max_examples=examples(10), phases=NO_SHRINKING)
def test_the_plan_is_the_best_of_all_with_these_layers(data):
    case = data.draw(cases_with_cut())
    plans = every_plan(case)
    limit = data.draw(st.sampled_from([None, *plans.limits()]))
    event(f"binds: {plans.best_ns(limit) != plans.best_ns(None)}")
    outcome = plan(case.network, memory_limit_bytes=limit, layers=case.layers, time_limit_s=SECONDS, **case.arguments)
    best = plans.best_ns(limit)
    assert outcome.status is Status.OPTIMAL
    assert outcome.plan.layers == case.layers
    assert best <= outcome.makespan_ns <= best * (1 + TOLERANCE)
    assert best * (1 - 2 * TOLERANCE) <= outcome.lower_bound_ns <= best
    assert limit is None or max(outcome.simulation.peak_memory_bytes) <= limit


@given(case=cases_with_cut())
@settings(max_examples=5, phases=NO_SHRINKING)
def test_one_byte_too_little_gives_the_smallest_limit_for_these_layers(case):
    least = every_plan(case).least_bytes
    if least < 2:
        return
    outcome = plan(case.network, memory_limit_bytes=least - 1, layers=case.layers, time_limit_s=SECONDS,
                   **case.arguments)  # fmt: skip
    assert outcome.status is Status.INFEASIBLE
    assert outcome.infeasibility.proven
    assert outcome.infeasibility.smallest_limit_bytes == least
    assert "with these layers" in outcome.certificate()


@given(case=cases_with_cut())
@settings(max_examples=examples(30))
def test_first_plans_keep_the_layers_and_the_least_memory_is_exact(case):
    problem = case.problem()
    least = least_memory(problem, seconds=0.0)
    assert problem.plan(even_start(problem)).layers == case.layers
    assert problem.plan(least.counts).layers == case.layers
    assert least.bound_bytes == every_plan(case).least_bytes


@given(case=cases_with_cut(), seed=st.integers(0, 100))
@settings(max_examples=examples(30))
def test_the_search_keeps_the_layers(case, seed):
    problem = case.problem()
    search = Annealing(problem=problem, counts=even_start(problem), seed=seed)
    search._anneal(steps=300, hot=0.1 * search.best)
    for counts in (search.counts, search.best_counts):
        assert problem.plan(counts).layers == case.layers
    assert search.best >= every_plan(case).best_ns(None)


def test_an_infeasible_split_names_its_limit_and_says_that_another_would_do():
    """Rank 0 holds two microbatches of 5 layers: 5 * (50 + 2 * 10) MB at least. Of even halves it is 4 * 70 MB."""
    sizes = {"num_ranks": 2, "num_microbatches": 4, "layers": ((5, 3),)}
    outcome = plan(plain_network(), **sizes, memory_limit_bytes=300 * MEGABYTE, time_limit_s=SECONDS)
    assert outcome.status is Status.INFEASIBLE
    assert outcome.infeasibility.rank == 0
    assert outcome.infeasibility.smallest_limit_bytes == 350 * MEGABYTE
    assert outcome.infeasibility.advice[0].startswith("another split of the layers would fit")
    assert "the smallest limit that would do with these layers is 350 MB" in outcome.summary()


def test_the_certificate_speaks_of_these_layers_only():
    """Rank 0 works 4 * 150 ms; it runs F0 F1 until 100 ms and then waits for B0, which rank 1 ends at 50 + 30 + 60."""
    outcome = plan(plain_network(), num_ranks=2, num_microbatches=4, layers=((5, 3),), time_limit_s=SECONDS)
    assert outcome.makespan_ns == (4 * 150 + 40) * MILLISECOND
    assert (
        outcome.certificate()
        == "optimal to 2 parts in a million: no plan of this schedule with these layers is shorter than 640.000 ms"
    )


@pytest.mark.parametrize(
    ("layers", "parts"),
    [
        (((5, 4),), ("layers must add up to the 8", "got 9")),
        (((8, 0),), ("layers, chunk 0, rank 1 must hold at least one layer", "got 0", "do not forbid empty cells")),
        (((9, -1),), ("layers, chunk 0, rank 1 must", "got -1")),
        (((4, 2, 2),), ("layers must have a row for each chunk", "1 x 2", "[[4, 2, 2]]")),
        (((3, 2), (2, 1)), ("layers must have a row for each chunk", "1 x 2")),
        ((), ("layers must have a row for each chunk", "1 x 2")),
    ],
)
def test_layers_that_are_no_split_are_refused(layers, parts):
    with pytest.raises(InputError) as error:
        plan(plain_network(), num_ranks=2, num_microbatches=4, layers=layers, time_limit_s=1, allow_empty=False)
    for part in parts:
        assert part in str(error.value)
