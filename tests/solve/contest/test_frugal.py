"""Kinds that never need more memory than another one, against every cut of small networks."""

from dataclasses import replace

from hypothesis import event, given, settings
from hypothesis import strategies as st

from evenflow.model import CellRule
from evenflow.solve.contest.frugal import keeps_no_more, kept_bytes, only_kind
from tests.networks import plain_network
from tests.solve.cases import cases
from tests.solve.exhaustive import Case, every_plan
from tests.strategies import FamilySizes
from tests.thoroughness import examples


def under(case: Case, kind: str) -> Case:
    return replace(case, rule=CellRule(kinds=(kind,)))


@given(data=st.data())
@settings(max_examples=examples(150), deadline=None)
def test_no_rank_of_any_cut_needs_more_under_the_kind_that_keeps_no_more(data):
    case = data.draw(cases(memory=1000))
    less, more = data.draw(st.sampled_from(case.split.kinds)), data.draw(st.sampled_from(case.split.kinds))
    says = keeps_no_more(under(case, less).problem(), under(case, more).problem())
    event(f"keeps no more: {says}")
    if not says:
        return
    peaks, larger = every_plan(under(case, less)), every_plan(under(case, more))
    assert (peaks.rank_peaks_bytes <= larger.rank_peaks_bytes).all()
    assert peaks.least_bytes <= larger.least_bytes
    assert not keeps_no_more(under(case, more).problem(), under(case, less).problem())


def test_what_keeps_less_and_works_as_much_less_keeps_no_more():
    case = Case(network=plain_network(4, "select"), sizes=FamilySizes(family="1f1b", num_ranks=2, num_microbatches=3))
    full, select, none = (under(case, kind).problem() for kind in ("full", "select", "none"))
    assert [keeps_no_more(*pair) for pair in ((full, select), (select, none), (full, none))] == [True] * 3
    assert [keeps_no_more(*pair) for pair in ((select, full), (none, select), (none, none))] == [False] * 3
    assert kept_bytes(full) < kept_bytes(select) < kept_bytes(none) < float("inf")


def test_what_needs_more_working_memory_than_it_saves_does_not():
    """A layer keeps 90 MB less under `full`; computing it again needs 89 MB, 90 MB or 91 MB for itself."""
    case = Case(network=plain_network(4), sizes=FamilySizes(family="1f1b", num_ranks=2, num_microbatches=3))
    megabyte = case.network.runs[0].layer.modes["full"].activation_bytes // 10
    answers = []
    for more in (89, 90, 91):
        layer = case.network.runs[0].layer
        mode = replace(layer.modes["full"], working_bytes=more * megabyte)
        run = replace(case.network.runs[0], layer=replace(layer, modes={**layer.modes, "full": mode}))
        heavy = replace(case, network=replace(case.network, runs=(run,)))
        answers.append(keeps_no_more(under(heavy, "full").problem(), under(heavy, "none").problem()))
    assert answers == [True, True, False]


def test_cells_that_choose_have_no_one_kind():
    case = Case(network=plain_network(4), sizes=FamilySizes(family="1f1b", num_ranks=2, num_microbatches=3))
    free, counted = case.problem(), replace(case, rule=CellRule(full=(1, 1))).problem()
    assert (only_kind(free), only_kind(counted)) == (None, None)
    assert not keeps_no_more(free, under(case, "none").problem())
    assert kept_bytes(free) == float("inf")
