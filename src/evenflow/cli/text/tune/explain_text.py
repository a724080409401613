"""Why a row of a ranking of degrees is not the first, as text."""

from collections.abc import Sequence

from evenflow.cli.text.display_width import text_width, wrapped
from evenflow.cli.text.predict_text import part_name
from evenflow.cli.text.tables import aligned
from evenflow.language import _
from evenflow.tune.answers.explain import COMPUTE, RECOMPUTATION, AxisChange, Difference, PartDifference, whole

_TENTH = 1e5
"""A tenth of a millisecond, the unit of the table."""
_MOST_REASONS = 3
_GIGABYTE = 2**30


def explain_text(difference: Difference, *, first: str, other: str, is_tied: bool = False) -> str:
    """Return a table of both steps by part, and why the `other` is slower than the `first`, as people call them.

    `is_tied` says that the two cannot be told apart.
    """
    sentences = [why(difference), _memory(difference)]
    if is_tied:
        sentences.append(_("the error of such a difference is larger: they cannot be told apart"))
    return "\n".join(
        [
            _title(difference, first=first, other=other),
            _table(difference, first=first, other=other),
            *(line for sentence in sentences for line in wrapped(sentence, text_width())),
        ]
    )


def change_words(changes: Sequence[AxisChange]) -> str:
    """Return what is not the same: ``tensor 8 instead of 4, data 2 instead of 4``."""
    if not changes:
        return _("the same degrees")
    return ", ".join(
        _("{axis} {other} instead of {first}", axis=change.axis, other=change.other, first=change.first)
        for change in changes
    )


def why(difference: Difference) -> str:
    """Return one sentence: which parts cost most, the axes they follow from, and which parts save."""
    costs = _reasons(difference, sign=1)
    saved = _reasons(difference, sign=-1)
    if costs and saved:
        return _("it costs {costs}, and saves {saved}", costs=costs, saved=saved)
    if costs:
        return _("it costs {costs}", costs=costs)
    return _("it saves {saved}", saved=saved) if saved else _("no part of the step takes another time")


def ms(time_ns: float) -> str:
    """Return milliseconds with one digit after the point."""
    return f"{time_ns / 1e6:,.1f}"


def gigabytes(size_bytes: float) -> str:
    """Return GB of 2^30 bytes with one digit after the point."""
    return f"{size_bytes / _GIGABYTE:.1f}"


def _title(difference: Difference, *, first: str, other: str) -> str:
    values = {"first": first, "other": other, "share": f"{100 * abs(difference.share):.1f}"}
    values["changes"] = change_words(difference.changes)
    time = _more(sum(_tenths_of(difference).values()))
    if difference.more_ns >= 0:
        text = _("{other} takes {time} ms longer than {first} ({share} %): {changes}", time=time, **values)
    else:
        text = _("{other} takes {time} ms less than {first} ({share} %): {changes}", time=time, **values)
    return "\n".join(wrapped(text, text_width()))


def _table(difference: Difference, *, first: str, other: str) -> str:
    """Return a table of times by part, rounded so that every column adds up to its total, with memory below."""
    ours = whole((part.first_ns for part in difference.parts), _TENTH)
    theirs = whole((part.other_ns for part in difference.parts), _TENTH)

    def row(name: str, our: int, their: int) -> list[str]:
        return [name, f"{our / 10:,.1f}", f"{their / 10:,.1f}", f"{(their - our) / 10:+,.1f}"]

    rows = [
        row(_name(part.name), our, their)
        for part, our, their in zip(difference.parts, ours, theirs, strict=True)
        if our or their
    ]
    rows.append(row(_("step ms"), sum(ours), sum(theirs)))
    limit = difference.limit_bytes
    for name, our_bytes, their_bytes in (
        (_("peak GB"), difference.first_bytes, difference.other_bytes),
        (_("free GB"), limit - difference.first_bytes, limit - difference.other_bytes),
    ):
        rows.append(row(name, _tenths(our_bytes), _tenths(their_bytes)))
    return aligned([_("exposed ms"), first, other, _("difference")], rows, left={0})


def _memory(difference: Difference) -> str:
    more = _tenths(difference.other_bytes) - _tenths(difference.first_bytes)
    free = difference.limit_bytes - difference.other_bytes
    values = {"peak": gigabytes(difference.other_bytes), "limit": gigabytes(difference.limit_bytes)}
    if free < 0:
        return _(
            "it does not fit: {peak} GB are {over} GB above the limit of {limit} GB", over=gigabytes(-free), **values
        )
    values["free"] = gigabytes(free)
    if more > 0:
        return _(
            "its fullest rank holds {peak} GB, {more:.1f} GB more; {free} GB of {limit} GB stay free",
            more=more / 10,
            **values,
        )
    if more < 0:
        return _(
            "its fullest rank holds {peak} GB, {less:.1f} GB less; {free} GB of {limit} GB stay free",
            less=-more / 10,
            **values,
        )
    return _("its fullest rank holds {peak} GB as well; {free} GB of {limit} GB stay free", **values)


def _tenths(size_bytes: int) -> int:
    return round(10 * size_bytes / _GIGABYTE)


def _reasons(difference: Difference, *, sign: int) -> str:
    """Return the parts that take most of the time in one direction, the largest first."""
    more = _tenths_of(difference)
    least = max(1.0, max(map(abs, more.values())) / 50)
    parts = [part for part in difference.parts if sign * more[part.name] >= least]
    parts.sort(key=lambda part: -abs(more[part.name]))
    return ", ".join(_reason(part, more[part.name]) for part in parts[:_MOST_REASONS])


def _reason(part: PartDifference, more: int) -> str:
    time, name, cause = _more(more), _name(part.name), part.cause
    if cause is None:
        return _("{time} ms of {name}", time=time, name=name)
    return _("{time} ms of {name} ({axis} {value})", time=time, name=name, axis=cause.axis, value=cause.other)


def _tenths_of(difference: Difference) -> dict[str, int]:
    """Return how much longer each part takes, in tenths of a millisecond as the table has them."""
    ours = whole((part.first_ns for part in difference.parts), _TENTH)
    theirs = whole((part.other_ns for part in difference.parts), _TENTH)
    return {part.name: their - our for part, our, their in zip(difference.parts, ours, theirs, strict=True)}


def _more(tenths: int) -> str:
    return f"{abs(tenths) / 10:,.1f}"


def _name(name: str) -> str:
    """Return a part in the language spoken."""
    return {COMPUTE: _("compute"), RECOMPUTATION: _("recomputation")}.get(name, part_name(name))
