"""What a plan means for who decides: which limits bind, and what more or less memory would change."""

from collections.abc import Iterator, Sequence

from evenflow.cli.text.tables import binding_words
from evenflow.language import _
from evenflow.solve.outcome import BindingLimit
from evenflow.solve.sensitivity import LimitWorth, Sensitivity
from evenflow.units import GIGABYTE, milliseconds

_EQUAL_SHARE = 5e-6
"""Share of the step below which two steps are equal: solvers end within a few millionths."""


def decision_sentences(binding: Sequence[BindingLimit], worth: Sensitivity | None) -> list[str]:
    """Return sentences on the memory of a plan that has a limit: where it binds, and what a change of it is worth."""
    sentences = [binding_words(binding)]
    if worth is not None:
        for limit_worth in worth.limits:
            sentences += [_with_limit(limit_worth, worth), _price(limit_worth, worth)]
        sentences += _with_ranks(worth)
    return [sentence for sentence in sentences if sentence]


def _with_limit(limit_worth: LimitWorth, worth: Sensitivity) -> str:
    more = limit_worth.limit_bytes > worth.limit_bytes
    change = _gigabytes(abs(limit_worth.limit_bytes - worth.limit_bytes))
    with_change = (
        _("with {change} more on every rank", change=change)
        if more
        else _("with {change} less on every rank", change=change)
    )
    if not limit_worth.fits:
        return _("{with_change} no plan would fit", with_change=with_change)
    if limit_worth.step_ns is None:
        return _("{with_change} no plan was found in the time given", with_change=with_change)
    return _(
        "{with_change} a step would take {difference}{proof}",
        with_change=with_change,
        difference=_difference(limit_worth.step_ns, worth.step_ns),
        proof=_proof(limit_worth.step_ns, limit_worth.lower_bound_ns),
    )


def _price(limit_worth: LimitWorth, worth: Sensitivity) -> str:
    """Return how much memory a step that is 1 ms shorter costs; empty where more memory makes no shorter step."""
    if (
        limit_worth.step_ns is None
        or limit_worth.step_ns >= worth.step_ns
        or _is_equal(limit_worth.step_ns, worth.step_ns)
    ):
        return ""
    gained_ns, more_bytes = worth.step_ns - limit_worth.step_ns, limit_worth.limit_bytes - worth.limit_bytes
    return _(
        "that is {rate} per GB; a step that is 1 ms shorter costs about {price} on every rank",
        rate=_duration(gained_ns * GIGABYTE / more_bytes),
        price=_gigabytes(more_bytes / milliseconds(gained_ns)),
    )


def _with_ranks(worth: Sensitivity) -> Iterator[str]:
    for rank_worth in worth.ranks:
        values = {"rank": rank_worth.rank, "more": _gigabytes(rank_worth.more_bytes)}
        if rank_worth.step_ns >= worth.step_ns or _is_equal(rank_worth.step_ns, worth.step_ns):
            proof = _proof(min(rank_worth.step_ns, worth.step_ns), rank_worth.lower_bound_ns) or _(" (proven)")
            yield _("rank {rank} alone with {more} more: no shorter step{proof}", proof=proof, **values)
            continue
        saved_ns = worth.step_ns - rank_worth.step_ns
        yield _(
            "rank {rank} alone with {more} more: {saved} less, {rate} per GB{proof}",
            saved=_duration(saved_ns),
            rate=_duration(saved_ns * GIGABYTE / rank_worth.more_bytes),
            proof=_proof(rank_worth.step_ns, rank_worth.lower_bound_ns),
            **values,
        )
    left = len(worth.binding) - len(worth.ranks)
    if left:
        yield _("the time did not suffice for {count} more of the ranks whose limit binds", count=left)


def _difference(step_ns: int, before_ns: int) -> str:
    if _is_equal(step_ns, before_ns):
        return _("as long, {step}", step=_duration(step_ns))
    saved_ns = before_ns - step_ns
    values = {
        "step": _duration(step_ns),
        "change": _duration(abs(saved_ns)),
        "percent": 100 * abs(saved_ns) / before_ns,
    }
    if saved_ns > 0:
        return _("{step}, {change} less ({percent:.2f} %)", **values)
    return _("{step}, {change} more ({percent:.2f} %)", **values)


def _proof(step_ns: int, lower_bound_ns: int) -> str:
    """Return what is known where a step is not proven to be the shortest."""
    if _is_equal(step_ns, lower_bound_ns):
        return ""
    return _("; not less than {bound}", bound=_duration(lower_bound_ns))


def _is_equal(one_ns: float, other_ns: float) -> bool:
    return abs(one_ns - other_ns) <= _EQUAL_SHARE * max(one_ns, other_ns)


def _duration(time_ns: float) -> str:
    value = time_ns / 1e6
    return f"{value:,.1f} ms" if value >= 100 else f"{value:,.3g} ms"


def _gigabytes(size_bytes: float) -> str:
    return f"{size_bytes / GIGABYTE:,.3g} GB"
