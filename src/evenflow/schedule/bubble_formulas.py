"""Bubbles in closed form: how many bubbles each rank has, where and how long. [uneven VPP talk, part 2]

The formulas hold for equal stages and free messages, in the layout of `simulate.even_layout`. With s = p - r - 1 and
times f and b of a forward and a backward of one stage (a chunk), rank r of p has four bubbles:

    r f            before the first action
    s b            between the forwards of the warm-up and the steady phase
    s f            between the steady phase and the backwards of the cool-down
    r b            after the last action

The sum is (p - 1)(f + b) on every rank. A rank without a steady phase, as all of F-then-B, has s (f + b) between its
forwards and its backwards. Eager and interleaved 1F1B, which warm up longer, have max(0, s (b - f)) before the steady
phase and the rest of s (f + b) after it. With several chunks and a second group of n >= p microbatches, the first of
the two is at least (s - r - 1) b - (n - p)(f + b): a forward of rank 0 in the steady phase needs one of the last rank
that is also in it, and all ranks behind follow that. With fewer microbatches (or parts) than ranks, U < p, and several
chunks, each pass through a chunk but the last adds (p - U) f between forwards and (p - U) b between backwards.

Where the first group is larger than the others, the bubble after the steady phase of the first ranks is in pieces: each
of the first backwards of the cool-down waits for a forward of the last rank. With g microbatches in the first group, p
in each of at least two others, and y = min((v - 1)(g - p) - 2 - 2 r, s - r - 2) > 0, rank r has y - 1 pieces of f, one
of (s - r - 1 - y) f, and the rest.

Where backwards are split and input and weight gradient take f each (b = 2 f), rank r of ZB-H1, ZB-H2, ZB-V and
DualPipe-V has two bubbles, once there are enough microbatches:

    r f            before the first action
    s f            in ZB-H2 and ZB-V after the last action, in ZB-H1 before the first gradient;
                   in DualPipe-V s times f, between forwards and gradients

The talk writes s f before and s b after the steady phase of 1F1B. For f = b that is the same; otherwise it is the
other way round: the first backward of rank r starts s backwards after that of the last rank, which starts when rank r
has just run the p - r forwards it can.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from evenflow.model import Sizes
from evenflow.schedule.groups import group_sizes, usual_group_size

_FORWARDS_AHEAD = {
    "1f1b": 1, "interleaved-less-memory": 1, "eager-1f1b": 2, "interleaved": 2, "interleaved-remainder-last": 2,
}  # fmt: skip
"""Forwards of the warm-up per rank that follows, by family."""


class BubblePlace(StrEnum):
    """The place where a rank waits, named by what the rank does before and after."""

    START = "before the first action"
    FORWARDS = "between forwards"
    TURN = "between forward and backward"
    RETURN = "between backward and forward"
    BACKWARDS = "between backwards"
    END = "after the last action"


_SPLIT_BACKWARD = {
    "zb-h1": BubblePlace.TURN,
    "zb-h2": BubblePlace.END,
    "zbv": BubblePlace.END,
    "dualpipe-v": BubblePlace.TURN,
}
"""Place of the one bubble that is not before the first action, by family."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bubble:
    """The bubbles of one length that a rank has at one kind of place."""

    place: BubblePlace
    count: int
    """Number of these bubbles in one step."""
    length_ns: int
    """Length of each of them."""


def collect_bubbles(gaps: Iterable[tuple[BubblePlace, int, int]]) -> tuple[Bubble, ...]:
    """Return bubbles from their places, counts and lengths in ns.

    They are sorted by place and length; equal bubbles are added up and empty ones left out.
    """
    counts: dict[tuple[BubblePlace, int], int] = {}
    for place, count, length_ns in gaps:
        if count * length_ns:
            counts[place, length_ns] = counts.get((place, length_ns), 0) + count
    order = list(BubblePlace)
    keys = sorted(counts, key=lambda key: (order.index(key[0]), key[1]))
    return tuple(Bubble(place=place, count=counts[place, length], length_ns=length) for place, length in keys)


def bubbles_by_formula(
    family: str,
    *,
    rank: int,
    num_ranks: int,
    num_chunks: int,
    num_microbatches: int,
    sequence_splits: int = 1,
    group_size: int | None = None,
    forward_ns: int,
    backward_ns: int,
    weight_ns: int | None = None,
) -> tuple[Bubble, ...] | None:
    """Return the bubbles of a rank for equal stages; None where there is no formula for these sizes.

    `family` is a canonical name. `forward_ns` and `backward_ns` are the times of one microbatch (part) on one stage;
    `weight_ns` is the weight gradient's share of the backward, by default half.
    """
    before, after, both = rank, num_ranks - rank - 1, forward_ns + backward_ns
    if family in _SPLIT_BACKWARD:
        are_equal = backward_ns == 2 * forward_ns and weight_ns in (None, forward_ns)
        if num_microbatches < _fewest(family, num_ranks) or sequence_splits > 1 or not are_equal:
            return None
        count = after if family == "dualpipe-v" else 1
        rest = (_SPLIT_BACKWARD[family], count, after * forward_ns // max(1, count))
        return collect_bubbles([(BubblePlace.START, 1, before * forward_ns), rest])
    sizes = Sizes(
        num_ranks=num_ranks, num_chunks=num_chunks, num_microbatches=num_microbatches, sequence_splits=sequence_splits
    )
    groups = _groups(sizes, group_size)
    is_short = (
        family == "interleaved-remainder-last" and 0 < num_microbatches % num_ranks < num_ranks < num_microbatches
    )
    if (is_short and group_size is None) or not _has_formula(family, sizes, groups):
        return None
    ends = [(BubblePlace.START, 1, before * forward_ns), (BubblePlace.END, 1, before * backward_ns)]
    if family == "naive":
        passes = num_microbatches * (num_chunks - 1)
        return collect_bubbles(
            [
                *ends,
                (BubblePlace.TURN, num_microbatches, after * both),
                (BubblePlace.RETURN, num_microbatches - 1, before * both),
                (BubblePlace.FORWARDS, passes, (num_ranks - 1) * forward_ns),
                (BubblePlace.BACKWARDS, passes, (num_ranks - 1) * backward_ns),
            ]
        )
    missing = max(0, num_ranks - sizes.num_units)
    ends += [
        (BubblePlace.FORWARDS, num_chunks - 1, missing * forward_ns),
        (BubblePlace.BACKWARDS, num_chunks - 1, missing * backward_ns),
    ]
    if family == "f-then-b":
        return collect_bubbles([*ends, (BubblePlace.TURN, 1, after * both)])
    ahead = _FORWARDS_AHEAD[family]
    warmup = (num_chunks - 1) * groups[0] + sequence_splits - 1 + ahead * after
    if warmup + 1 >= num_chunks * sizes.num_units:
        return collect_bubbles([*ends, (BubblePlace.TURN, 1, after * both)])
    if ahead == 1:
        return collect_bubbles(
            [*ends, (BubblePlace.FORWARDS, 1, after * backward_ns), (BubblePlace.BACKWARDS, 1, after * forward_ns)]
        )
    gap, pieces = max(0, after * (backward_ns - forward_ns)), 0
    if num_chunks > 1 and len(groups) > 1:
        gap = max(gap, (after - before - 1) * backward_ns - (min(groups) - num_ranks) * both)
        if len(groups) > 2:
            pieces = min((num_chunks - 1) * (groups[0] - groups[1]) - 2 - 2 * before, after - before - 2)
    last = after * both - gap
    ends += [(BubblePlace.FORWARDS, 1, gap)]
    if pieces > 0:
        waiting = after - before - 2
        ends += [
            (BubblePlace.BACKWARDS, pieces - 1, forward_ns),
            (BubblePlace.BACKWARDS, 1, (waiting - pieces + 1) * forward_ns),
        ]
        last -= waiting * forward_ns
    return collect_bubbles([*ends, (BubblePlace.BACKWARDS, 1, last)])


def _groups(sizes: Sizes, group_size: int | None) -> list[int]:
    """Return the microbatch parts of each group of an interleaved order."""
    fill = usual_group_size(sizes)
    groups = group_sizes(num_microbatches=sizes.num_microbatches, group=group_size or fill, fill=fill)
    return [size * sizes.sequence_splits for size in groups]


def _fewest(family: str, num_ranks: int) -> int:
    """Return the fewest microbatches for which a family with split backwards has a formula."""
    if family == "zb-h1":
        return num_ranks
    return 2 * num_ranks if family == "dualpipe-v" else 2 * num_ranks - 1


def _has_formula(family: str, sizes: Sizes, groups: list[int]) -> bool:
    """Return whether every bubble of every rank is known in closed form; `groups` has their microbatch parts."""
    if family == "naive":
        return sizes.sequence_splits == 1
    if family != "f-then-b" and family not in _FORWARDS_AHEAD:
        return False
    if family == "f-then-b" or sizes.num_chunks == 1 or len(groups) == 1:
        return True
    if min(groups) < sizes.num_ranks:
        return False  # ranks wait between chunks too
    if family == "interleaved-less-memory":
        return True
    # With the longer warm-up, a larger first group cuts the last bubble of rank 0 into pieces.
    uneven = (sizes.num_chunks - 1) * (max(groups) - min(groups)) + sizes.sequence_splits - 1
    if uneven <= 2 or sizes.num_ranks <= 3:
        return True
    if sizes.sequence_splits > 1:
        return False
    if len(groups) == 2:
        return sizes.num_chunks == 2 and groups[0] > groups[1] == sizes.num_ranks
    return min(groups) == groups[-1] == groups[1] == sizes.num_ranks
