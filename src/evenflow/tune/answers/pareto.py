"""Pareto fronts of the configurations: step against memory, devices, or the number of changed settings."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from operator import le
from typing import TypeVar

from evenflow.predict.training import Training
from evenflow.tune.answers.explain import changes_between
from evenflow.tune.answers.standing import outside_space
from evenflow.tune.axes import Axis, Value, schedule_of
from evenflow.tune.candidate import Candidate
from evenflow.tune.coarse import coarse
from evenflow.tune.question import TuningQuestion
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
        """The best configuration on these devices; None where nothing fits."""
        return self.tuned.best


def front(items: Iterable[_One], *measures: Callable[[_One], float]) -> list[_One]:
    """Return the Pareto front: items that no other item matches in every measure and beats in one; of equals the first.

    Smaller is better. They are sorted by the first measure, so that the second falls where there are two.
    """
    measured = sorted(
        ((tuple(measure(item) for measure in measures), item) for item in items),
        key=lambda measures_and_item: measures_and_item[0],
    )
    kept: list[tuple[tuple[float, ...], _One]] = []
    for values, item in measured:
        if not any(all(map(le, other, values)) for other, _item in kept):
            kept.append((values, item))
    return [item for _values, item in kept]


def by_memory(tuned: Tuned, more: Iterable[Tuned] = ()) -> list[Candidate]:
    """Return the Pareto front of step and memory over all solved configurations, also under smaller limits."""
    return front(_solved([tuned, *more]), lambda candidate: candidate.step_ns, peak_bytes)


def smaller_limits(tuned: Tuned) -> list[TuningQuestion]:
    """Return the question under smaller memory limits, down to a quarter of what the best configuration holds.

    What the driver takes stays.
    """
    best = tuned.best
    if best is None:
        return []
    question = tuned.question
    driver_bytes = round(question.topology.accelerator.reached.driver_bytes)
    held = peak_bytes(best) - driver_bytes
    limits = (driver_bytes + int(share * held) for share in (0.75, 0.5, 0.25))
    return [replace(question, memory_limit_bytes=limit) for limit in limits]


def device_counts(question: TuningQuestion) -> list[int]:
    """Return fewer devices to solve the question for: halves first, then other divisors, the largest first.

    Parts of a node are left out, unless less than a node is asked for.
    """
    devices, node = question.devices, question.topology.domain_devices
    every = [
        count for count in divisors(devices, most=devices - 1) if devices <= node or count % node == 0 or count == node
    ]
    halves = [count for count in every if (devices // count) & (devices // count - 1) == 0]
    others = [count for count in every if count not in halves]
    return sorted([*reversed(halves), *reversed(others)][: _MOST_COUNTS - 1], reverse=True)


def on_devices(question: TuningQuestion, devices: int) -> TuningQuestion:
    """Return the question for another number of devices; a fixed data-parallel degree is given up."""
    fixed: dict[Axis, Value] = {axis: value for axis, value in question.fixed.items() if axis != Axis.DATA}
    return replace(question, devices=devices, fixed=fixed)


def on_all_devices(question: TuningQuestion, training: Training) -> Training | None:
    """Return a configuration of fewer devices with more copies of the model; None where the space has no such one."""
    degrees = training.degrees
    times, rest = divmod(question.devices, degrees.devices)
    if rest or question.global_batch % (times * degrees.data * training.microbatch):
        return None
    more = replace(training, degrees=replace(degrees, data=times * degrees.data))
    return more if outside_space(question, more) is None else None


def by_devices(answers: Iterable[OnDevices]) -> list[OnDevices]:
    """Return the Pareto front of step and number of devices."""
    solved = [answer for answer in answers if answer.best is not None]
    return front(solved, lambda answer: answer.tuned.ranked[0].step_ns, lambda answer: answer.devices)


def distance(today: Candidate, other: Candidate) -> int:
    """Return how many settings differ between two configurations, without those that follow from others."""
    changed = {change.axis for change in changes_between(today, other)}
    if Axis.CHUNKS in changed and {schedule_of(today.training), schedule_of(other.training)} == {"1f1b", "interleaved"}:
        changed.discard(Axis.SCHEDULE)
    if 1 in (today.training.degrees.pipeline, other.training.degrees.pipeline):
        changed.discard(Axis.SCHEDULE)  # without a pipeline there is none
    return len(changed.difference(_FOLLOWING))


def by_distance(tuned: Tuned, today: Candidate, *, is_over: Callable[[], bool]) -> list[Candidate]:
    """Return the Pareto front of step and number of changed settings, today's degrees with their best plan included.

    First plans are made for configurations whose bounds say that they may be on it, until `is_over`.
    """
    known = _within_distance(tuned, today, is_over)
    return front(known, lambda candidate: distance(today, candidate), lambda candidate: candidate.step_ns)


def peak_bytes(candidate: Candidate) -> int:
    """Return what the fullest rank of a solved configuration holds."""
    assert candidate.found is not None
    return max(candidate.found.rank_bytes)


def _solved(answers: Iterable[Tuned]) -> Iterator[Candidate]:
    for tuned in answers:
        yield from (candidate for candidate in tuned.made if candidate.found is not None)


def _within_distance(tuned: Tuned, today: Candidate, is_over: Callable[[], bool]) -> Iterator[Candidate]:
    """Yield solved configurations by number of changes; those that no bound refutes are given a first plan."""
    by_level: dict[int, list[Candidate]] = {}
    for candidate in tuned.candidates:
        by_level.setdefault(distance(today, candidate), []).append(candidate)
    best_ns = float("inf")
    for level in sorted(by_level):
        for candidate in sorted(by_level[level], key=lambda waiting: waiting.lower_bound_ns):
            planned = candidate.found
            if planned is None and candidate.lower_bound_ns < best_ns and not is_over():
                planned = coarse(candidate.pricing, candidate.training)
            if planned is not None:
                best_ns = min(best_ns, planned.step_ns)
                yield replace(candidate, found=planned)
