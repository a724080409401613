"""``--pareto``: the ranking against memory, devices and changes, solved for what it does not have yet."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isinf

from evenflow.cli.shared.progress import shown_step
from evenflow.cli.text.tune.pareto_text import devices_text, distance_text, memory_text, untried_text
from evenflow.export.results.tune_answers import solved_fields
from evenflow.language import _
from evenflow.solve.time_left import TimeLeft
from evenflow.tune.answers.alone import solved
from evenflow.tune.answers.pareto import (
    OnDevices,
    by_devices,
    by_distance,
    by_memory,
    device_counts,
    distance,
    on_all_devices,
    on_devices,
    smaller_limits,
)
from evenflow.tune.candidate import Candidate
from evenflow.tune.question import TuningQuestion
from evenflow.tune.search import search
from evenflow.tune.tuned import Tuned

_SECONDS = 0.5
"""Of a configuration that fewer devices show to be faster."""
_MEMORY_SHARE, _DEVICES_SHARE = 0.35, 0.8
"""Shares of what is left for narrower memory, then for fewer devices where changes are counted too."""


@dataclass(frozen=True, kw_only=True)
class Fronts:
    """What nothing beats in two respects at once."""

    tuned: Tuned
    today: Candidate | None
    """What the user runs."""
    time_left: TimeLeft
    """For all that is solved besides."""

    def text(self) -> Iterator[str]:
        """Yield a table for each."""
        yield memory_text(by_memory(self.tuned, self._narrower))
        devices = [one.devices for one in self._on_devices if one.best is None]
        yield devices_text(by_devices(self._on_devices), devices)
        if self.today is not None:
            yield distance_text(self.today, self._changes)
        limits, counts = self._untried
        if limits or counts:
            yield untried_text(limits, counts)

    def fields(self) -> dict[str, object]:
        """Return the fields of each."""
        memory = by_memory(self.tuned, self._narrower)
        devices = [one.best for one in by_devices(self._on_devices) if one.best is not None]
        found: dict[str, object] = {
            "memory": [solved_fields(one) for one in memory],
            "devices": [{"devices": one.training.degrees.devices, **solved_fields(one)} for one in devices],
        }
        today = self.today
        if today is not None:
            found["changes"] = [{"changes": distance(today, one), **solved_fields(one)} for one in self._changes]
        return found

    @property
    def solved(self) -> Iterator[Candidate]:
        """The configurations that were solved for them; of fewer devices that are faster, with more copies on all."""
        yield from by_memory(self.tuned, self._narrower)
        best = self.tuned.best
        for one in self._on_devices:
            if one.best is not None and best is not None and one.best.step_ns < best.step_ns:
                more = on_all_devices(self.tuned.question, one.best.training)
                found = None if more is None else solved(self.tuned.question, more, time_limit_s=_SECONDS)
                if found is not None and found.found is not None:
                    yield found
        if self.today is not None:
            yield from self._changes

    @cached_property
    def _limits(self) -> Sequence[TuningQuestion]:
        return smaller_limits(self.tuned)

    @cached_property
    def _counts(self) -> Sequence[int]:
        return device_counts(self.tuned.question)

    @cached_property
    def _narrower(self) -> list[Tuned]:
        """The answers with less memory that there was time for."""
        return self._answers(self._limits, self.time_left.share(_MEMORY_SHARE))

    @cached_property
    def _on_devices(self) -> list[OnDevices]:
        """The answers on fewer devices that there was time for, behind that on all."""
        question = self.tuned.question
        time_left = self.time_left.share(1.0 if self.today is None else _DEVICES_SHARE)
        found = self._answers([on_devices(question, count) for count in self._counts], time_left)
        return [OnDevices(devices=one.question.devices, tuned=one) for one in (self.tuned, *found)]

    @cached_property
    def _changes(self) -> list[Candidate]:
        assert self.today is not None
        with shown_step(_("counting changes")):
            return by_distance(self.tuned, self.today, is_over=lambda: self.time_left.is_over)

    @property
    def _untried(self) -> tuple[list[int], list[int]]:
        """The memory limits and the numbers of devices that there was no time for."""
        limits = {one.question.memory_limit_bytes for one in self._narrower}
        counts = {one.devices for one in self._on_devices}
        left = [each.memory_limit_bytes for each in self._limits if each.memory_limit_bytes not in limits]
        return left, [count for count in self._counts if count not in counts]

    @staticmethod
    def _answers(questions: Sequence[TuningQuestion], time_left: TimeLeft) -> list[Tuned]:
        """Return the answers to the questions that there is time for."""
        found: list[Tuned] = []
        with shown_step(_("solving for less")):
            for number, question in enumerate(questions):
                if time_left.is_over:
                    break
                share = time_left.share(1 / (len(questions) - number))
                found.append(search(question, rows=1, time_limit_s=share.seconds))
        return [one for one in found if one.best is not None or isinf(one.lower_bound_ns)]
