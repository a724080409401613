"""Idle time of a step in closed form: for equal stages with free messages, and the reason where there is none.

With p ranks, v chunks, m microbatches, k parts of a sequence, U = m k, and times f and b = i + w of a forward and a
backward (input and weight gradient) of a microbatch part on one stage, a rank is idle for so long, every rank equally:

    F-then-B, 1F1B, eager 1F1B      (p - 1 + (v - 1) max(0, p - U)) (f + b)
    interleaved, in full groups     the same, for every group size from the ranks on and with any remainder
    naive                           v m (p - 1) (f + b)
    ZB-H1                           (p - 1) max(f, i, f + i - w)
    ZB-H2                           (p - 1) max(f, i - f, f + i - 2 w)
    ZB-V                            (p - 1) max(2 f - i, i, w, 2 (i - w)), unless f > i > w
    DualPipe-V                      the larger of (p - 1) max(f, f + i - w, 2 f - i - w, 2 (f - w))
                                    and (p - 1) max(i, 2 i - w) - f

The last four hold from so many microbatches on that every rank has a steady phase: p, 2 p - 1, 2 p - 1 and 2 p. For
f = i = w every size has a form, V-Half and V-Min included, whose orders are made for these times; only where these two
are about to reach their steady phase, some sizes have none. The tests compare all of them with the simulator.
"""

from collections.abc import Callable
from dataclasses import dataclass

from evenflow.language import _
from evenflow.model import Sizes
from evenflow.schedule.groups import usual_group_size

_WHOLE = ("f-then-b", "1f1b", "eager-1f1b", "interleaved", "interleaved-less-memory", "interleaved-remainder-last")
_SPLIT = ("zb-h1", "zb-h2", "zbv", "v-half", "v-min", "dualpipe-v")


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleFormula:
    """The idle time of every rank by formula, or why there is none."""

    idle_ns: int | None
    """Idle time of each rank in a step of equal stages with free messages; None without a formula."""
    words: str
    """The formula in the symbols of ``evenflow schedules``; without one, the reason."""


def idle_by_formula(
    family: str,
    sizes: Sizes,
    *,
    forward_ns: int,
    backward_ns: int,
    weight_ns: int | None = None,
    group_size: int | None = None,
) -> IdleFormula:
    """Return the idle time of each rank of a family; the order must be that of `make_schedule`.

    `family` is a canonical name. Times are those of one microbatch (part) on one stage; `weight_ns` is the weight
    gradient's share of the backward, by default half.
    """
    if family == "naive":
        return _naive(sizes, forward_ns + backward_ns)
    if family in _WHOLE:
        return _whole(family, sizes, forward_ns + backward_ns, group_size)
    if family not in _SPLIT:
        return _without(_("none is known for {schedule}", schedule=family))
    weight = backward_ns // 2 if weight_ns is None else weight_ns
    return _split(family, sizes, forward_ns, backward_ns - weight, weight)


def _naive(sizes: Sizes, both_ns: int) -> IdleFormula:
    if sizes.sequence_splits > 1:
        return _without(_("only for whole sequences"))
    passes = sizes.num_chunks * sizes.num_microbatches
    return IdleFormula(idle_ns=passes * (sizes.num_ranks - 1) * both_ns, words="v m (p-1) (f+b)")


def _whole(family: str, sizes: Sizes, both_ns: int, group_size: int | None) -> IdleFormula:
    missing = max(0, sizes.num_ranks - sizes.num_units) * (sizes.num_chunks - 1)
    if group_size is not None and group_size < usual_group_size(sizes):
        return _without(_("none is known for groups that do not fill the pipeline"))
    last = sizes.num_microbatches % (group_size or sizes.num_ranks)
    is_short = sizes.num_chunks > 1 and 0 < last < sizes.num_ranks < sizes.num_microbatches
    if is_short and family == "interleaved-remainder-last":
        return _without(_("none is known for a last group that does not fill the pipeline"))
    formula = "(p-1 + (v-1)(p-m)) (f+b)" if missing else "(p-1) (f+b)"
    if missing and sizes.sequence_splits > 1:
        formula = "(p-1 + (v-1)(p - k m)) (f+b)"
    return IdleFormula(idle_ns=(sizes.num_ranks - 1 + missing) * both_ns, words=formula)


def _split(family: str, sizes: Sizes, f: int, i: int, w: int) -> IdleFormula:
    """Return the idle time where backwards are split; f, i and w are the times in ns."""
    ranks, microbatches = sizes.num_ranks, sizes.num_microbatches
    least = {"zb-h1": ranks, "dualpipe-v": 2 * ranks}.get(family, 2 * ranks - 1)
    if sizes.sequence_splits > 1:
        least = 2 * ranks  # so that parts of a sequence, whose gradients come in reverse, are no bother
    any_times = _ANY_TIMES.get(family)
    if any_times is not None and microbatches >= least and not (family == "zbv" and f > i > w):
        idle, formula = any_times(ranks - 1, f, i, w)
        return IdleFormula(idle_ns=idle, words=formula)
    if sizes.sequence_splits > 1:
        return _without(_("only from {least} microbatches on, where sequences are split", least=least))
    if not f == i == w:
        if any_times is None:
            return _without(_("only for f = i = w"))
        if microbatches < least:
            return _without(_("only for f = i = w, or from {least} microbatches on", least=least))
        return _without(_("not for f > i > w"))
    forwards, formula = _EQUAL_TIMES[family](ranks, microbatches)
    return _without(formula) if forwards is None else IdleFormula(idle_ns=forwards * f, words=formula)


def _zb_h1(behind: int, f: int, i: int, w: int) -> tuple[int, str]:
    return behind * max(f, i, f + i - w), "(p-1) max(f, i, f+i-w)"


def _zb_h2(behind: int, f: int, i: int, w: int) -> tuple[int, str]:
    return behind * max(f, i - f, f + i - 2 * w), "(p-1) max(f, i-f, f+i-2w)"


def _zbv(behind: int, f: int, i: int, w: int) -> tuple[int, str]:
    return behind * max(2 * f - i, i, w, 2 * (i - w)), "(p-1) max(2f-i, i, w, 2(i-w))"


def _dualpipe_v(behind: int, f: int, i: int, w: int) -> tuple[int, str]:
    first = behind * max(f, f + i - w, 2 * f - i - w, 2 * (f - w))
    second = behind * max(i, 2 * i - w) - f
    return max(first, second) if behind else 0, "max((p-1) max(f, f+i-w, 2f-i-w, 2(f-w)), (p-1) max(i, 2i-w) - f)"


_ANY_TIMES: dict[str, Callable[[int, int, int, int], tuple[int, str]]] = {
    "zb-h1": _zb_h1, "zb-h2": _zb_h2, "zbv": _zbv, "dualpipe-v": _dualpipe_v,
}  # fmt: skip
"""Idle time and its words by p - 1 and the three times, where there are enough microbatches."""


def _equal_zb_h1(ranks: int, microbatches: int) -> tuple[int | None, str]:
    return ranks - 1 + max(0, ranks - microbatches), "(p-1 + max(0, p-m)) f"


def _equal_zb_h2(ranks: int, microbatches: int) -> tuple[int | None, str]:
    return 2 * (ranks - 1) - min(ranks - 1, microbatches // 2), "(2(p-1) - min(p-1, m//2)) f"


def _few_on_a_v(ranks: int, microbatches: int) -> tuple[int | None, str]:
    """Return the idle time of up to p microbatches of which none waits for memory."""
    missing = ranks - microbatches
    return max(4 * missing - 1, 2 * missing + ranks - 1), "max(4(p-m) - 1, 2(p-m) + p-1) f"


def _equal_zbv(ranks: int, microbatches: int) -> tuple[int | None, str]:
    return _few_on_a_v(ranks, microbatches) if microbatches < ranks else (ranks - 1, "(p-1) f")


def _equal_v_half(ranks: int, microbatches: int) -> tuple[int | None, str]:
    if ranks <= 2:
        return _equal_zbv(ranks, microbatches)
    if microbatches <= ranks // 2 + 1:
        return _few_on_a_v(ranks, microbatches)
    if 4 * microbatches < 3 * ranks and ranks > 12:
        return None, _("only up to p//2 + 1 and from 3p/4 microbatches on")
    return (3 * ranks - 7, "(3p-7) f") if ranks % 2 == 0 else (3 * ranks - 4, "(3p-4) f")


def _equal_v_min(ranks: int, microbatches: int) -> tuple[int | None, str]:
    if ranks <= 2:
        return _equal_zbv(ranks, microbatches)
    if microbatches <= (ranks + 4) // 3:
        return _few_on_a_v(ranks, microbatches)
    if 3 * microbatches < 2 * ranks or (ranks, microbatches) == (5, 4):
        return None, _("only up to (p+4)//3 and from 2p/3 microbatches on, with 5 ranks from 5 on")
    return (4 * ranks - 7, "(4p-7) f") if ranks % 3 == 0 else (4 * ranks - 5, "(4p-5) f")


def _equal_dualpipe_v(ranks: int, microbatches: int) -> tuple[int | None, str]:
    if microbatches <= ranks:
        return 5 * (ranks - 1) - 2 * (microbatches - 1), "(5(p-1) - 2(m-1)) f"
    missing = max(0, 2 * ranks - microbatches)
    return ranks - 1 + 2 * missing, "(p-1 + 2(2p-m)) f" if missing else "(p-1) f"


_EQUAL_TIMES: dict[str, Callable[[int, int], tuple[int | None, str]]] = {
    "zb-h1": _equal_zb_h1, "zb-h2": _equal_zb_h2, "zbv": _equal_zbv, "v-half": _equal_v_half, "v-min": _equal_v_min,
    "dualpipe-v": _equal_dualpipe_v,
}  # fmt: skip
"""Idle time in forward times, and its words, by ranks and microbatches, for f = i = w."""


def _without(reason: str) -> IdleFormula:
    return IdleFormula(idle_ns=None, words=reason)
