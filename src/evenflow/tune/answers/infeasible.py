"""What to change where nothing fits: the smallest memory limit or number of devices found that allows a plan."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from evenflow.predict.training import Training
from evenflow.ranges import DEVICES
from evenflow.solve.bounds import even_memory_bytes
from evenflow.solve.time_left import TimeLeft
from evenflow.tune.bounds import StepBounds
from evenflow.tune.candidate import Pricing
from evenflow.tune.coarse import MACHINE_CODE, coarse
from evenflow.tune.question import TuningQuestion
from evenflow.tune.rows.split import Split
from evenflow.tune.rows.split_bound import that_hold_least
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
    """The memory limit and the number of devices with which a configuration would fit."""

    bytes_at_least: int
    """No configuration fits into less, to one part in a hundred; 0 where that is not known."""
    memory_bytes: int | None
    """A limit with which a plan was found; None without."""
    devices: int | None
    """The smallest number of devices that was tried for which a plan was found; None without."""
    had_time: bool = True
    """Whether all was looked at that there is to look at."""


def needed(question: TuningQuestion, time_left: TimeLeft) -> Needed:
    """Return the memory and the devices with which a configuration would fit, as far as time allows to find them."""
    if not MACHINE_CODE.wait(is_over=lambda: time_left.is_over):  # bounds would wait for it
        return Needed(bytes_at_least=0, memory_bytes=None, devices=None, had_time=False)
    at_least, memory = _smallest_limit(question, time_left.share(1 / 2))
    devices = _fewest_devices(question, time_left)
    return Needed(bytes_at_least=at_least, memory_bytes=memory, devices=devices, had_time=not time_left.is_over)


def _smallest_limit(question: TuningQuestion, time_left: TimeLeft) -> tuple[int, int | None]:
    """Return a lower bound on the memory limit that any plan needs, and a limit for which a plan was found.

    Splits are taken in the order of what they need at least: one that needs more than another was bounded to is not
    looked at.
    """
    pricing = Pricing(question=question)
    splits = _by_least_limit(pricing, time_left)
    if not splits:
        return 0, None
    most = _MOST_TIMES * question.memory_limit_bytes
    low, nearest = most, []
    for floor, split in splits:
        if floor >= (1 - _NEAR) * low:
            break
        if time_left.is_over:
            return min(low, floor), None
        for training in split.trainings():
            if _may_fit(pricing, training, int((1 - _NEAR) * low)):
                low = _least_limit(pricing, training, floor, low, time_left)
                nearest.append(training)
    for step in _STEPS if low < most else ():
        wider = _with_limit(pricing, int(step * low))
        fitting = _least_found(wider, reversed(nearest[-_TRIED:]), time_left)
        if fitting is not None:
            return low, fitting
    return low, None


def _by_least_limit(pricing: Pricing, time_left: TimeLeft) -> list[tuple[int, Split]]:
    """Return every split with a limit too small for it, smallest limit first; empty if time is too short for all."""
    limits = []
    for split in space_of(pricing.question).splits:
        if time_left.is_over:
            return []
        held = min(even_memory_bytes(pricing.request(training)) for training in that_hold_least(split))
        limits.append((pricing.question.device_bytes_for(held) - 1, split))
    return sorted(limits, key=lambda limit_and_split: limit_and_split[0])


def _least_limit(pricing: Pricing, training: Training, low: int, high: int, time_left: TimeLeft) -> int:
    """Return by bisection nearly the largest limit between `low` and `high` that a configuration does not fit."""
    while high - low > _NEAR / 2 * high and not time_left.is_over:
        middle = (low + high) // 2
        low, high = (low, middle) if _may_fit(pricing, training, middle) else (middle, high)
    return low


def _may_fit(pricing: Pricing, training: Training, limit_bytes: int) -> bool:
    return StepBounds(pricing=_with_limit(pricing, limit_bytes)).step_ns(training) < float("inf")


def _fewest_devices(question: TuningQuestion, time_left: TimeLeft) -> int | None:
    """Return the fewest devices found with which a plan fits: doubled first, then between."""
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


def _fits_on(question: TuningQuestion, devices: int, time_left: TimeLeft) -> bool:
    """Return whether a plan was found on this many devices, for one of the splits that need the least memory."""
    pricing = Pricing(question=replace(question, devices=devices))
    limit, tried = question.memory_limit_bytes, 0
    bounds = StepBounds(pricing=pricing)
    for floor, split in _by_least_limit(pricing, time_left):
        for training in split.trainings() if floor < limit and tried < _TRIED else ():
            if time_left.is_over:
                return False
            if bounds.step_ns(training) < float("inf"):
                tried += 1
                if coarse(pricing, training) is not None:
                    return True
    return False


def _with_limit(pricing: Pricing, limit_bytes: int) -> Pricing:
    """Return `pricing` with another memory limit."""
    return replace(pricing, question=replace(pricing.question, memory_limit_bytes=limit_bytes))


def _least_found(pricing: Pricing, every: Iterable[Training], time_left: TimeLeft) -> int | None:
    """Return the memory of devices for the plan found that needs the least; None without a plan."""
    least: int | None = None
    for training in every:
        planned = coarse(pricing, training)
        if planned is not None:
            needed_bytes = pricing.question.sure_bytes(planned.rank_bytes)
            least = min(needed_bytes, least or needed_bytes)
        if time_left.is_over:
            break
    return least
