"""Ranges that mark the steps of training."""

import re
from collections.abc import Iterable

from evenflow.profiles.traces.formats.event_times import follows

_STEP = re.compile(r"(?:ProfilerStep|step|iter|iteration)[\s_#:=-]*\d+", re.IGNORECASE)


def is_step(name: str) -> bool:
    """Whether a range of this name is a whole step.

    >>> is_step("ProfilerStep#12"), is_step("iteration 3"), is_step("Optimizer.step#SGD.step")
    (True, True, False)
    """
    return name[-1:].isdigit() and _STEP.fullmatch(name) is not None


def complete_steps(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the steps in order; of marks that overlap, as host and device may both have one, the first counts.

    >>> complete_steps([(10_000, 20_000), (0, 10_000), (12_000, 22_000)])
    [(0, 10000), (10000, 20000)]
    """
    steps: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if not steps or follows(start, end, steps[-1][1]):
            steps.append((start, end))
    return steps
