"""Small problems that have cut graphs, with a memory limit and the shortest of all their plans."""

from hypothesis import assume
from hypothesis import strategies as st

from evenflow.solve.cuts.cut_graph import has_cut_graphs
from tests.solve.cases import cases
from tests.solve.exhaustive import Case, every_plan
from tests.solve.test_cell_rules import ruled
from tests.solve.test_unequal_ranks import unequal


@st.composite
def graph_cases(draw: st.DrawFn, *, most_chunks: int = 2) -> tuple[Case, int | None, int]:
    """A case under cell rules, on unequal ranks or neither, its limit in bytes, and the step of its best plan in ns."""
    case = draw(small_cases())
    assume(case.sizes.num_chunks <= most_chunks and has_cut_graphs(case.problem()))
    return draw(with_limits(case))


def small_cases() -> st.SearchStrategy[Case]:
    """Cases under cell rules, on unequal ranks or neither."""
    return st.sampled_from([cases, ruled, unequal]).flatmap(lambda own: own())


@st.composite
def with_limits(draw: st.DrawFn, case: Case) -> tuple[Case, int | None, int]:
    """The case, a limit in bytes for it, and the step of its best plan in ns."""
    plans = every_plan(case)
    limit = draw(st.sampled_from([None, *plans.limits()]))
    best = plans.best_ns(limit)
    assume(best is not None)
    assert best is not None
    return case, limit, best
