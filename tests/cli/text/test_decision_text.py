"""Sentences on what memory is worth: every case of a change, in words that say what was proven."""

from evenflow.cli.text.decision_text import decision_sentences
from evenflow.solve.outcome import BindingLimit
from evenflow.solve.sensitivity import LimitWorth, RankWorth, Sensitivity
from evenflow.units import GIGABYTE, MEGABYTE

STEP = 200_000_000
LIMIT = 40 * GIGABYTE


def limit(more_gb: int, step_ns: int | None, bound_ns: int | None = None, *, fits: bool = True) -> LimitWorth:
    bound = step_ns or 0 if bound_ns is None else bound_ns
    return LimitWorth(limit_bytes=LIMIT + more_gb * GIGABYTE, step_ns=step_ns, lower_bound_ns=bound, fits=fits)


def worth(limits: tuple[LimitWorth, ...] = (), ranks: tuple[RankWorth, ...] = (), binding: int = 0) -> Sensitivity:
    return Sensitivity(
        step_ns=STEP, limit_bytes=LIMIT, limits=limits, ranks=ranks, binding=tuple(range(binding or len(ranks)))
    )


def test_more_and_less_memory():
    binding = BindingLimit(rank=0, more_bytes=300 * MEGABYTE, takes_layer=False)
    found = decision_sentences([binding], worth((limit(4, 192_000_000), limit(-4, 230_000_000, 229_000_000))))
    assert found == [
        "memory binds on rank 0: with 300 MB more it would recompute less",
        "with 4 GB more on every rank a step would take 192.0 ms, 8 ms less (4.00 %)",
        "that is 2 ms per GB; a step that is 1 ms shorter costs about 0.5 GB on every rank",
        "with 4 GB less on every rank a step would take 230.0 ms, 30 ms more (15.00 %); not less than 229.0 ms",
    ]


def test_what_changes_nothing_does_not_fit_or_was_not_found():
    found = decision_sentences([], worth((limit(4, STEP), limit(-4, None, fits=False))))[1:]
    assert found == [
        "with 4 GB more on every rank a step would take as long, 200.0 ms",
        "with 4 GB less on every rank no plan would fit",
    ]
    found = decision_sentences([], worth((limit(4, STEP + 5_000_000, 190_000_000), limit(-4, None))))[1:]
    assert found == [
        "with 4 GB more on every rank a step would take 205.0 ms, 5 ms more (2.50 %); not less than 190.0 ms",
        "with 4 GB less on every rank no plan was found in the time given",
    ]


def test_memory_of_one_rank():
    ranks = (
        RankWorth(rank=0, more_bytes=2 * GIGABYTE, step_ns=STEP - 1_000_000, lower_bound_ns=STEP - 1_000_000),
        RankWorth(rank=1, more_bytes=GIGABYTE, step_ns=STEP, lower_bound_ns=STEP),
        RankWorth(rank=2, more_bytes=GIGABYTE, step_ns=STEP, lower_bound_ns=STEP - 8_000_000),
    )
    assert decision_sentences([], worth((), ranks, binding=5))[1:] == [
        "rank 0 alone with 2 GB more: 1 ms less, 0.5 ms per GB",
        "rank 1 alone with 1 GB more: no shorter step (proven)",
        "rank 2 alone with 1 GB more: no shorter step; not less than 192.0 ms",
        "the time did not suffice for 2 more of the ranks whose limit binds",
    ]
