"""``--pareto``: the ranking against memory, devices and changes, solved for what it does not have yet."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from evenflow.cli.shared.progress import shown_step
from evenflow.cli.text.tune.pareto_text import devices_text, distance_text, memory_text
from evenflow.export.results.tune_answers import solved_fields
from evenflow.interruption import was_interrupted
from evenflow.language import _
from evenflow.tune.answers.pareto import (
    OnDevices,
    by_devices,
    by_distance,
    by_memory,
    device_counts,
    distance,
    on_devices,
    smaller_limits,
)
from evenflow.tune.candidate import Candidate
from evenflow.tune.question import Question
from evenflow.tune.search import search
from evenflow.tune.tuned import Tuned


@dataclass(frozen=True, kw_only=True)
class Fronts:
    """What nothing beats in two respects at once."""

    tuned: Tuned
    today: Candidate | None
    """What the user runs."""
    time_limit_s: float
    """For all that is solved besides."""

    def text(self) -> Iterator[str]:
        """Yield a table for each."""
        yield memory_text(self._memory)
        yield devices_text(self._devices, [one.devices for one in self._tried if one.best is None])
        if self.today is not None:
            yield distance_text(self.today, self._changes)

    def fields(self) -> dict[str, object]:
        """Return the fields of each."""
        best = [one.best for one in self._devices if one.best is not None]
        found: dict[str, object] = {
            "memory": [solved_fields(one) for one in self._memory],
            "devices": [{"devices": one.training.degrees.devices, **solved_fields(one)} for one in best],
        }
        today = self.today
        if today is not None:
            found["changes"] = [{"changes": distance(today, one), **solved_fields(one)} for one in self._changes]
        return found

    @cached_property
    def _memory(self) -> list[Candidate]:
        return by_memory(self.tuned, [self._answer(each) for each in smaller_limits(self.tuned)])

    @property
    def _devices(self) -> list[OnDevices]:
        return by_devices(self._tried)

    @cached_property
    def _tried(self) -> list[OnDevices]:
        question = self.tuned.question
        answers = [OnDevices(devices=question.devices, tuned=self.tuned)]
        answers += [
            OnDevices(devices=count, tuned=self._answer(on_devices(question, count)))
            for count in device_counts(question)
        ]
        return answers

    @cached_property
    def _changes(self) -> list[Candidate]:
        assert self.today is not None
        deadline = time.monotonic() + self._share_s
        with shown_step(_("counting changes")):
            return by_distance(self.tuned, self.today, is_over=lambda: was_interrupted() or time.monotonic() > deadline)

    @property
    def _share_s(self) -> float:
        return self.time_limit_s / 8

    def _answer(self, question: Question) -> Tuned:
        with shown_step(_("solving for less")):
            return search(question, rows=1, time_limit_s=self._share_s)
