"""What a plan means for who decides: which limits bind, and what more or less memory would change."""

from collections.abc import Iterator, Sequence

from evenflow.cli.text.tables import binding_words
from evenflow.language import _
from evenflow.solve.memory_curve import is_equal
from evenflow.solve.outcome import BindingLimit
from evenflow.solve.sensitivity import Sensitivity
from evenflow.units import GIGABYTE, MEGABYTE


def decision_sentences(binding: Sequence[BindingLimit], worth: Sensitivity | None) -> list[str]:
    """Return sentences on the memory of a plan that has a limit: where it binds, and what a change of it is worth."""
    sentences = [binding_words(binding)]
    if worth is not None:
        sentences += [*_with_more(worth), *_with_less(worth), *_with_ranks(worth)]
        if not worth.curve.is_whole:
            sentences.append(_("the time did not suffice for every stair: there may be shorter steps between these"))
    return [sentence for sentence in sentences if sentence]


def _with_more(worth: Sensitivity) -> Iterator[str]:
    """Yield what the next stair of the curve needs and gives, and the last one."""
    points = worth.curve.points
    shorter = [
        point
        for point in points
        if point.peak_bytes > worth.limit_bytes
        and point.step_ns < worth.step_ns
        and not is_equal(point.step_ns, worth.step_ns)
    ]
    floor_ns = worth.curve.floor_ns
    if not shorter:
        if is_equal(points[-1].step_ns, floor_ns):
            yield _("more memory on every rank makes no step shorter (proven)")
        elif floor_ns:
            yield _(
                "with more memory on every rank no shorter step was found; not less than {bound}",
                bound=_duration(floor_ns),
            )
        return
    for point in shorter[:1] + shorter[1:][-1:]:
        is_last = point is points[-1] and is_equal(point.step_ns, floor_ns)
        end = _("; more than that makes no step shorter") if is_last else ""
        yield _(
            "with {change} more on every rank a step would take {difference}{proof}{end}",
            change=_size(point.peak_bytes - worth.limit_bytes),
            difference=_difference(point.step_ns, worth.step_ns),
            proof=_proof(point.step_ns, point.lower_bound_ns),
            end=end,
        )


def _with_less(worth: Sensitivity) -> Iterator[str]:
    """Yield what the stair below the plan's own saves and costs, and the least memory of all."""
    within = [point for point in worth.curve.points if point.peak_bytes <= worth.limit_bytes]
    for below in within[-2:-1]:
        yield _(
            "with {change} less on every rank a step would take {difference}{proof}",
            change=_size(worth.limit_bytes - below.peak_bytes),
            difference=_difference(below.step_ns, worth.step_ns),
            proof=_proof(below.step_ns, below.lower_bound_ns),
        )
    if worth.curve.least_bytes is not None:
        yield _(
            "with less than {least} on every rank no plan would fit; with that a step would take {difference}{proof}",
            least=_size(worth.curve.least_bytes),
            difference=_difference(worth.curve.points[0].step_ns, worth.step_ns),
            proof=_proof(worth.curve.points[0].step_ns, worth.curve.points[0].lower_bound_ns),
        )


def _with_ranks(worth: Sensitivity) -> Iterator[str]:
    for rank_worth in worth.ranks:
        values = {"rank": rank_worth.rank, "more": _size(rank_worth.more_bytes)}
        if rank_worth.step_ns >= worth.step_ns or is_equal(rank_worth.step_ns, worth.step_ns):
            proof = _proof(min(rank_worth.step_ns, worth.step_ns), rank_worth.lower_bound_ns) or _(" (proven)")
            yield _("rank {rank} alone with {more} more: no shorter step{proof}", proof=proof, **values)
            continue
        yield _(
            "rank {rank} alone with {more} more: {saved} less{proof}",
            saved=_duration(worth.step_ns - rank_worth.step_ns),
            proof=_proof(rank_worth.step_ns, rank_worth.lower_bound_ns),
            **values,
        )
    left = len(worth.binding) - len(worth.ranks)
    if left:
        yield _("the time did not suffice for {count} more of the ranks whose limit binds", count=left)


def _difference(step_ns: int, before_ns: int) -> str:
    if is_equal(step_ns, before_ns):
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
    if is_equal(step_ns, lower_bound_ns):
        return ""
    return _("; not less than {bound}", bound=_duration(lower_bound_ns))


def _duration(time_ns: float) -> str:
    value = time_ns / 1e6
    return f"{value:,.1f} ms" if value >= 100 else f"{value:,.3g} ms"


def _size(size_bytes: float) -> str:
    if size_bytes < GIGABYTE:
        return f"{size_bytes / MEGABYTE:,.0f} MB"
    return f"{size_bytes / GIGABYTE:,.4g} GB"
