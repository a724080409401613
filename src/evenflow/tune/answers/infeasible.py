"""Where nothing fits: the smallest memory limit and the smallest number of devices found with which something would."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from evenflow.predict.training import Training
from evenflow.ranges import DEVICES
from evenflow.tune.answers.time_left import TimeLeft
from evenflow.tune.bounds import Bounds
from evenflow.tune.candidate import Pricing
from evenflow.tune.coarse import coarse
from evenflow.tune.question import Question
from evenflow.tune.space import space_of

_TRIED = 30
"""Configurations that get a plan at one limit, those with the shortest bounds first."""
_NEAR = 0.01
"""Share of the limit to which the bound on it is found."""
_STEPS = (1.0, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 4.0)
"""Limits that are tried for a plan, in multiples of the bound on them."""
_MOST_TIMES = 1024
"""Times as many devices, or as much memory, up to which is looked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """What something would fit with."""

    bytes_at_least: int
    """No configuration fits into less, to one part in a hundred; 0 where that is not known."""
    memory_bytes: int | None
    """A limit with which a plan was found; None without."""
    devices: int | None
    """The smallest number of devices that was tried for which a plan was found; None without."""
    had_time: bool = True
    """Whether all was looked at that there is to look at."""


def needed(question: Question, time_left: TimeLeft) -> Needed:
    """Return what would make something fit, as far as that is found in the time."""
    at_least, memory = _smallest_limit(question, time_left.share(1 / 2))
    devices = _fewest_devices(question, time_left)
    return Needed(bytes_at_least=at_least, memory_bytes=memory, devices=devices, had_time=not time_left.is_over)


def _smallest_limit(question: Question, time_left: TimeLeft) -> tuple[int, int | None]:
    """Return a bound on the limit that something fits into, and a limit that something was found to fit into."""
    pricing = Pricing(question=question)
    still = space_of(question).legal
    low = high = question.memory_limit_bytes
    while not (fitting := _fitting(_with_limit(pricing, high), still, time_left)):
        if time_left.is_over or high > _MOST_TIMES * question.memory_limit_bytes or not still:
            return low if still else 0, None
        low, high = high, 2 * high
    still = fitting
    while high - low > _NEAR * high and not time_left.is_over:
        middle = (low + high) // 2
        fitting = _fitting(_with_limit(pricing, middle), still, time_left)
        if fitting:
            high, still = middle, fitting
        elif not time_left.is_over:
            low = middle
    for step in _STEPS:
        wider = _with_limit(pricing, int(step * high))
        found = _least_found(wider, still, time_left)
        if found is not None:
            return low, found
    return low, None


def _fewest_devices(question: Question, time_left: TimeLeft) -> int | None:
    """Return the fewest devices found with which something fits: doubled first, then between."""
    low, high = question.devices, 2 * question.devices
    while not _fits_on(question, high, time_left):
        low, high = high, 2 * high
        if high > min(DEVICES.most, _MOST_TIMES * question.devices) or time_left.is_over:
            return None
    node = question.topology.domain_devices if low >= question.topology.domain_devices else 1
    for share in (1, 2, 3):
        devices = low + share * (high - low) // 4
        if low < devices < high and devices % node == 0 and _fits_on(question, devices, time_left):
            return devices
    return high


def _fits_on(question: Question, devices: int, time_left: TimeLeft) -> bool:
    asked = replace(question, devices=devices)
    pricing = Pricing(question=asked)
    return _least_found(pricing, space_of(asked).legal, time_left) is not None


def _with_limit(pricing: Pricing, limit_bytes: int) -> Pricing:
    """Return the same costs under another limit."""
    return replace(pricing, question=replace(pricing.question, memory_limit_bytes=limit_bytes))


def _fitting(pricing: Pricing, every: list[Training], time_left: TimeLeft) -> list[Training]:
    """Return the configurations that no bound refutes, the shortest first."""
    return [training for _bound_ns, training in sorted(_bounded(pricing, every, time_left), key=lambda one: one[0])]


def _bounded(pricing: Pricing, every: list[Training], time_left: TimeLeft) -> Iterator[tuple[float, Training]]:
    bounds = Bounds(pricing=pricing)
    for training in every:
        if time_left.is_over:
            return
        bound_ns = bounds.step_ns(training)
        if bound_ns < float("inf"):
            yield bound_ns, training


def _least_found(pricing: Pricing, every: list[Training], time_left: TimeLeft) -> int | None:
    """Return what the fullest rank holds in the plan found that needs the least; None without any."""
    least: int | None = None
    for training in _fitting(pricing, every, time_left)[:_TRIED]:
        found = coarse(pricing, training)
        if found is not None:
            least = min(max(found.rank_bytes), least or max(found.rank_bytes))
        if time_left.is_over:
            break
    return least
