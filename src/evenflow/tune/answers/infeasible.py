"""Where nothing fits: the smallest memory limit and the smallest number of devices found with which something would."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from evenflow.predict.training import Training
from evenflow.ranges import DEVICES
from evenflow.tune.answers.time_left import TimeLeft
from evenflow.tune.bounds import Bounds
from evenflow.tune.candidate import Pricing
from evenflow.tune.coarse import coarse
from evenflow.tune.question import Question
from evenflow.tune.rows.split import Split
from evenflow.tune.rows.split_bound import least_held, that_hold_least
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
    """Return a bound on the limit that something fits into, and a limit that something was found to fit into.

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
        found = _least_found(wider, reversed(nearest[-_TRIED:]), time_left)
        if found is not None:
            return low, found
    return low, None


def _by_least_limit(pricing: Pricing, time_left: TimeLeft) -> list[tuple[int, Split]]:
    """Return the splits with a limit that is too small for each, the smallest first; none without time for all."""
    reached = pricing.question.topology.accelerator.reached
    found = []
    for split in space_of(pricing.question).splits:
        if time_left.is_over:
            return []
        held = min(least_held(pricing.request(training)) for training in that_hold_least(split))
        found.append((int(held * (1 + reached.reserve_share)) - 1, split))
    return sorted(found, key=lambda one: one[0])


def _least_limit(pricing: Pricing, training: Training, low: int, high: int, time_left: TimeLeft) -> int:
    """Return a limit below which a configuration does not fit; `low` is one, `high` is not."""
    while high - low > _NEAR / 2 * high and not time_left.is_over:
        middle = (low + high) // 2
        low, high = (low, middle) if _may_fit(pricing, training, middle) else (middle, high)
    return low


def _may_fit(pricing: Pricing, training: Training, limit_bytes: int) -> bool:
    return Bounds(pricing=_with_limit(pricing, limit_bytes)).step_ns(training) < float("inf")


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
    """Return whether a plan was found on so many devices, for one of the splits that need least."""
    pricing = Pricing(question=replace(question, devices=devices))
    limit, tried = question.memory_limit_bytes, 0
    bounds = Bounds(pricing=pricing)
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
    """Return the same costs under another limit."""
    return replace(pricing, question=replace(pricing.question, memory_limit_bytes=limit_bytes))


def _least_found(pricing: Pricing, every: Iterable[Training], time_left: TimeLeft) -> int | None:
    """Return what the fullest rank holds in the plan found that needs the least; None without any."""
    least: int | None = None
    for training in every:
        found = coarse(pricing, training)
        if found is not None:
            least = min(max(found.rank_bytes), least or max(found.rank_bytes))
        if time_left.is_over:
            break
    return least
