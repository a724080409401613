"""Clocks for tests: one that stands still, so that nothing depends on how fast the machine is, and one that is set."""

from dataclasses import dataclass


def standing() -> float:
    """It is always the same time; other processes can be handed this function."""
    return 0.0


@dataclass
class SetClock:
    """A clock that goes on by `step` seconds each time it is read."""

    time: float = 0.0
    step: float = 0.0

    def __call__(self) -> float:
        self.time += self.step
        return self.time
