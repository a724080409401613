"""Bubbles in closed form: how many bubbles each rank has, where and how long. [uneven VPP talk, part 2]

The formulas hold for equal stages and free messages, in the layout of `simulate.even_layout`. With s = p - r - 1 and
times f and b of a forward and a backward of one stage (a chunk), rank r of p has four bubbles:

    r f            before the first action
    s b            between the forwards of the warm-up and the steady phase
    s f            between the steady phase and the backwards of the cool-down
    r b            after the last action

The sum is (p - 1)(f + b) on every rank. A rank without a steady phase, as all of F-then-B, has s (f + b) between its
forwards and its backwards. Eager and interleaved 1F1B, which warm up longer, have max(0, s (b - f)) before the steady
phase and the rest of s (f + b) after it; with several chunks and 2 p microbatches or more, at least (s - r - 1) b
before it.

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

_FORWARDS_AHEAD = {
    "1f1b": 1, "interleaved-less-memory": 1, "eager-1f1b": 2, "interleaved": 2, "interleaved-remainder-last": 2,
}  # fmt: skip
"""Forwards of the warm-up per rank that follows, by family."""


class Place(StrEnum):
    """The place where a rank waits, named by what the rank does before and after."""

    START = "before the first action"
    FORWARDS = "between forwards"
    TURN = "between forward and backward"
    RETURN = "between backward and forward"
    BACKWARDS = "between backwards"
    END = "after the last action"


_SPLIT_BACKWARD = {"zb-h1": Place.TURN, "zb-h2": Place.END, "zbv": Place.END, "dualpipe-v": Place.TURN}
"""Place of the one bubble that is not before the first action, by family."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bubble:
    """The bubbles of one length that a rank has at one kind of place."""

    place: Place
    count: int
    """Number of these bubbles in one step."""
    length_ns: int
    """Length of each of them."""


def collect_bubbles(gaps: Iterable[tuple[Place, int, int]]) -> tuple[Bubble, ...]:
    """Return bubbles from their places, counts and lengths in ns.

    They are sorted by place and length; equal bubbles are added up and empty ones left out.
    """
    counts: dict[tuple[Place, int], int] = {}
    for place, count, length_ns in gaps:
        if count * length_ns:
            counts[place, length_ns] = counts.get((place, length_ns), 0) + count
    order = list(Place)
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
    if group_size is not None:
        return None
    before, after, both = rank, num_ranks - rank - 1, forward_ns + backward_ns
    if family in _SPLIT_BACKWARD:
        are_equal = backward_ns == 2 * forward_ns and weight_ns in (None, forward_ns)
        if num_microbatches < _fewest(family, num_ranks) or sequence_splits > 1 or not are_equal:
            return None
        count = after if family == "dualpipe-v" else 1
        rest = (_SPLIT_BACKWARD[family], count, after * forward_ns // max(1, count))
        return collect_bubbles([(Place.START, 1, before * forward_ns), rest])
    if not _has_formula(family, num_ranks, num_chunks, num_microbatches, sequence_splits):
        return None
    ends = [(Place.START, 1, before * forward_ns), (Place.END, 1, before * backward_ns)]
    if family == "naive":
        passes = num_microbatches * (num_chunks - 1)
        return collect_bubbles(
            [
                *ends,
                (Place.TURN, num_microbatches, after * both),
                (Place.RETURN, num_microbatches - 1, before * both),
                (Place.FORWARDS, passes, (num_ranks - 1) * forward_ns),
                (Place.BACKWARDS, passes, (num_ranks - 1) * backward_ns),
            ]
        )
    if family == "f-then-b":
        return collect_bubbles([*ends, (Place.TURN, 1, after * both)])
    ahead = _FORWARDS_AHEAD[family]
    num_forwards = num_chunks * num_microbatches * sequence_splits
    first_group = num_ranks + num_microbatches % num_ranks if num_microbatches > num_ranks else num_microbatches
    warmup = (num_chunks - 1) * first_group + sequence_splits - 1 + ahead * after
    if warmup + 1 >= num_forwards:
        return collect_bubbles([*ends, (Place.TURN, 1, after * both)])
    gap = after * backward_ns
    if ahead == 2:
        gap = max(0, after * (backward_ns - forward_ns))
        if num_chunks > 1 and num_microbatches >= 2 * num_ranks:
            # A forward of rank 0 in the steady phase needs one of the last rank that is also in it, and all ranks
            # behind follow that.
            gap = max(gap, (after - before - 1) * backward_ns)
    return collect_bubbles([*ends, (Place.FORWARDS, 1, gap), (Place.BACKWARDS, 1, after * both - gap)])


def _fewest(family: str, num_ranks: int) -> int:
    """Return the fewest microbatches for which a family with split backwards has a formula."""
    if family == "zb-h1":
        return num_ranks
    return 2 * num_ranks if family == "dualpipe-v" else 2 * num_ranks - 1


def _has_formula(family: str, num_ranks: int, num_chunks: int, num_microbatches: int, sequence_splits: int) -> bool:
    """Return whether every bubble of every rank is known in closed form for these sizes."""
    if family == "naive":
        return sequence_splits == 1
    if family != "f-then-b" and family not in _FORWARDS_AHEAD:
        return False
    if num_chunks == 1:
        return sequence_splits == 1 or family in ("f-then-b", "1f1b", "eager-1f1b")
    if num_microbatches * sequence_splits < num_ranks:
        return False  # too few to fill the pipeline: ranks wait between chunks too
    if family == "f-then-b":
        return True
    if sequence_splits > 1:
        return False
    remainder = num_microbatches % num_ranks
    if family == "interleaved-remainder-last":
        return remainder == 0
    if family == "interleaved-less-memory" or num_microbatches < 2 * num_ranks:
        return True
    # With the longer warm-up, a larger first group makes rank 0 wait within its cool-down too.
    return (num_chunks - 1) * remainder <= 2
