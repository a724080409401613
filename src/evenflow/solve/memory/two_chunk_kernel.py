"""The compiled loop of `two_chunks.py`."""

from typing import Any


def take_up(
    peaks: Any,
    base: Any,
    first_starts: Any,
    first_targets: Any,
    first_sizes: Any,
    first_working: Any,
    second_starts: Any,
    second_targets: Any,
    second_sizes: Any,
    second_working: Any,
    least: int,
    most: int,
    below: int,
    behind: Any,
) -> int:
    """Let a rank take up both chunks at each pair of places; returns how many pairs of contents it looked at.

    `peaks` [num_places, num_places] holds the least peak of the ranks so far by the places where they end; `behind`
    gets the same with this rank. What reaches `below` is left out, and so are plans whose first chunk would end
    outside of [least, most]. Contents of a place p are those from ``starts[p]`` to ``starts[p + 1]``: where they end,
    their sizes [num_contents, num_vectors] and their working bytes; `base` [num_vectors] is beside them.
    """
    num_looks = 0
    num_places, num_vectors = len(peaks), len(base)
    behind[:, :] = below
    for first_place in range(num_places):
        for second_place in range(num_places):
            before = peaks[first_place, second_place]
            if before >= below:
                continue
            for first in range(first_starts[first_place], first_starts[first_place + 1]):
                target = first_targets[first]
                if target < least or target > most:
                    continue
                num_looks += second_starts[second_place + 1] - second_starts[second_place]
                for second in range(second_starts[second_place], second_starts[second_place + 1]):
                    peak = 0
                    for vector in range(num_vectors):
                        held = base[vector] + first_sizes[first, vector] + second_sizes[second, vector]
                        peak = held if held > peak else peak
                    own, other = first_working[first], second_working[second]
                    peak += own if own > other else other
                    peak = before if before > peak else peak
                    if peak < behind[target, second_targets[second]]:
                        behind[target, second_targets[second]] = peak
    return num_looks
