"""The configurations that nothing beats in two respects at once: the step and memory, devices, or what is changed."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from operator import le
from typing import TypeVar

from evenflow.tune.answers.explain import changes_between
from evenflow.tune.axes import Axis, Value, schedule_of
from evenflow.tune.candidate import Candidate
from evenflow.tune.coarse import coarse
from evenflow.tune.question import Question
from evenflow.tune.space import divisors
from evenflow.tune.tuned import Tuned

_MOST_COUNTS = 6
"""Numbers of devices that are tried, with the one that is asked for."""
_One = TypeVar("_One")
_FOLLOWING = (Axis.DATA,)
"""Axes that follow from the others on as many devices."""


@dataclass(frozen=True, kw_only=True)
class OnDevices:
    """The best configuration of fewer devices."""

    devices: int
    tuned: Tuned

    @property
    def best(self) -> Candidate | None:
        """It; None where nothing fits."""
        return self.tuned.best


def front(items: Iterable[_One], *measures: Callable[[_One], float]) -> list[_One]:
    """Return the items that no other is as good as in every measure and better in one; of equal ones the first.

    Smaller is better. They are sorted by the first measure, so that the second falls where there are two.
    """
    measured = sorted(((tuple(measure(item) for measure in measures), item) for item in items), key=lambda one: one[0])
    kept: list[tuple[tuple[float, ...], _One]] = []
    for values, item in measured:
        if not any(all(map(le, other, values)) for other, _item in kept):
            kept.append((values, item))
    return [item for _values, item in kept]


def by_memory(tuned: Tuned, more: Iterable[Tuned] = ()) -> list[Candidate]:
    """Return the front of steps and memory of all configurations that were solved, also in answers to narrower ones."""
    return front(_solved([tuned, *more]), lambda one: one.step_ns, peak_bytes)


def smaller_limits(tuned: Tuned) -> list[Question]:
    """Return the question with less memory, down to a quarter of what the best configuration holds."""
    best = tuned.best
    if best is None:
        return []
    held = peak_bytes(best)
    return [replace(tuned.question, memory_limit_bytes=int(share * held)) for share in (0.75, 0.5, 0.25)]


def device_counts(question: Question) -> list[int]:
    """Return fewer devices to solve the question for: halves first, then other divisors, the largest first.

    Parts of a node are left out, unless less than a node is asked for.
    """
    devices, node = question.devices, question.topology.domain_devices
    every = [
        each for each in divisors(devices, most=devices - 1) if devices <= node or each % node == 0 or each == node
    ]
    halves = [each for each in every if (devices // each) & (devices // each - 1) == 0]
    others = [each for each in every if each not in halves]
    return sorted([*reversed(halves), *reversed(others)][: _MOST_COUNTS - 1], reverse=True)


def on_devices(question: Question, devices: int) -> Question:
    """Return the question for a number of devices; copies of the model that were decided are as many as there are."""
    fixed: dict[Axis, Value] = {axis: value for axis, value in question.fixed.items() if axis != Axis.DATA}
    return replace(question, devices=devices, fixed=fixed)


def by_devices(answers: Iterable[OnDevices]) -> list[OnDevices]:
    """Return the front of steps and numbers of devices."""
    found = [one for one in answers if one.best is not None]
    return front(found, lambda one: one.tuned.ranked[0].step_ns, lambda one: one.devices)


def distance(today: Candidate, other: Candidate) -> int:
    """Return how many settings have to be changed: axes that do not follow from others."""
    changed = {change.axis for change in changes_between(today, other)}
    if Axis.CHUNKS in changed and {schedule_of(today.training), schedule_of(other.training)} == {"1f1b", "interleaved"}:
        changed.discard(Axis.SCHEDULE)
    if 1 in (today.training.degrees.pipeline, other.training.degrees.pipeline):
        changed.discard(Axis.SCHEDULE)  # without a pipeline there is none
    return len(changed.difference(_FOLLOWING))


def by_distance(tuned: Tuned, today: Candidate, *, is_over: Callable[[], bool]) -> list[Candidate]:
    """Return the front of steps and settings that are changed, today's degrees with their best plan among them.

    First plans are made for configurations whose bounds say that they may be on it, until `is_over`.
    """
    known = _within_distance(tuned, today, is_over)
    return front(known, lambda one: distance(today, one), lambda one: one.step_ns)


def peak_bytes(one: Candidate) -> int:
    """Return what the fullest rank of a solved configuration holds."""
    assert one.found is not None
    return max(one.found.rank_bytes)


def _solved(answers: Iterable[Tuned]) -> Iterator[Candidate]:
    for tuned in answers:
        yield from (one for one in tuned.made if one.found is not None)


def _within_distance(tuned: Tuned, today: Candidate, is_over: Callable[[], bool]) -> Iterator[Candidate]:
    """Yield solved configurations, those with the fewest changes first, and what bounds do not refute among these."""
    by_level: dict[int, list[Candidate]] = {}
    for one in tuned.candidates:
        by_level.setdefault(distance(today, one), []).append(one)
    best_ns = float("inf")
    for level in sorted(by_level):
        for one in sorted(by_level[level], key=lambda each: each.lower_bound_ns):
            found = one.found
            if found is None and one.lower_bound_ns < best_ns and not is_over():
                found = coarse(one.pricing, one.training)
            if found is not None:
                best_ns = min(best_ns, found.step_ns)
                yield replace(one, found=found)
