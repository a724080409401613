"""What another plan moves, and whether that pays."""

from evenflow.cli.text.tables import aligned
from evenflow.language import _, _n
from evenflow.solve.replan import Replanned
from evenflow.units import megabytes, milliseconds


def replan_text(replanned: Replanned, *, move_bytes_per_s: int | None) -> str:
    """Return the step before and after, the layers that move, and after how many steps moving them has paid."""
    before_ns, after_ns = replanned.before.makespan_ns, replanned.outcome.makespan_ns or 0
    if not replanned.moves:
        return _(
            "keep the plan: on these ranks it takes {before_ms:,.3f} ms, and none that was found is shorter",
            before_ms=milliseconds(before_ns),
        )
    change = _(
        "on these ranks the plan takes {before_ms:,.3f} ms, and another {after_ms:,.3f} ms ({percent:+.2f} %)",
        before_ms=milliseconds(before_ns),
        after_ms=milliseconds(after_ns),
        percent=100 * (after_ns / before_ns - 1),
    )
    rows = [
        [
            str(move.layers[0]) if len(move.layers) == 1 else f"{move.layers[0]}-{move.layers[-1]}",
            str(move.source),
            str(move.target),
            f"{megabytes(move.state_bytes):,.1f}",
        ]
        for move in replanned.moves
    ]
    table = aligned([_("layers"), _("from rank"), _("to rank"), _("state MB")], rows)
    count = sum(len(move.layers) for move in replanned.moves)
    moved = _n(
        "{count} layer changes its rank, with {state_mb:,.1f} MB of weights, gradients and optimizer state",
        "{count} layers change their rank, with {state_mb:,.1f} MB of weights, gradients and optimizer state",
        count=count,
        state_mb=megabytes(sum(move.state_bytes for move in replanned.moves)),
    )
    return "\n".join(filter(None, (change, "", table, "", moved, _paid(replanned, move_bytes_per_s))))


def _paid(replanned: Replanned, move_bytes_per_s: int | None) -> str:
    if move_bytes_per_s is None:
        return _("how long moving takes is not known: --move-bandwidth is not given")
    moving_ns, saved_ns = replanned.moving_ns(move_bytes_per_s), replanned.saved_ns
    if saved_ns <= 0:
        return _("moving takes {moving_ms:,.3f} ms; the plan of now does not fit", moving_ms=milliseconds(moving_ns))
    return _n(
        "moving takes {moving_ms:,.3f} ms, which {count} step saves",
        "moving takes {moving_ms:,.3f} ms, which {count} steps save",
        count=max(1, -(-moving_ns // saved_ns)),
        moving_ms=milliseconds(moving_ns),
    )
