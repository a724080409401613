"""What ``evenflow tune`` answers after the ranking: text, and the fields of its JSON file."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite

from evenflow.cli.shared.model_config import config_path, read_config
from evenflow.cli.shared.progress import shown_step
from evenflow.cli.text.tune.explain_text import explain_text
from evenflow.cli.text.tune.neighbours_text import neighbours_text
from evenflow.cli.text.tune.standing_text import standing_text
from evenflow.cli.text.tune.two_level_text import two_level_text
from evenflow.cli.text.tune.vendor_text import vendor_text
from evenflow.cli.verbs.tune.after_options import AfterOptions
from evenflow.cli.verbs.tune.fronts import Fronts
from evenflow.cli.verbs.tune.refiner import refiner_named
from evenflow.export.results.tune_answers import (
    difference_fields,
    needed_fields,
    neighbour_fields,
    published_fields,
    standing_fields,
    two_level_fields,
)
from evenflow.interruption import was_interrupted
from evenflow.language import _, _n
from evenflow.predict.training import Training
from evenflow.solve.time_left import TimeLeft
from evenflow.targets.training_baseline import TrainingBaseline
from evenflow.tune.answers.alone import solved
from evenflow.tune.answers.explain import Difference, difference
from evenflow.tune.answers.infeasible import Needed, needed
from evenflow.tune.answers.neighbours import Neighbour, neighbours
from evenflow.tune.answers.overtaking import overtaken
from evenflow.tune.answers.standing import Standing, standing
from evenflow.tune.answers.two_level import TwoLevel
from evenflow.tune.answers.vendor import PublishedStanding, published_standings
from evenflow.tune.candidate import Candidate
from evenflow.tune.error import tied
from evenflow.tune.preference import simplest_first
from evenflow.tune.tuned import Tuned

_NEEDED_SECONDS = 20.0
_LEAST_SECONDS = 1.0
"""For what would do where nothing does, also where the time is over: it is all that the answer has."""
_SECONDS = 1.0
"""Of a configuration that is solved for an answer."""
_WEIGHTS = {"baseline": 1, "neighbours": 2, "pareto": 3, "refine": 6}
"""Parts of the time of what is asked after the ranking, in the order in which it is answered."""
_RANKING = 6
"""That of the ranking."""


def ranking_share(asked: AfterOptions) -> float:
    """Return the share of the time limit that the ranking has."""
    return _RANKING / (_RANKING + sum(_WEIGHTS[name] for name in asked.names))


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The answers to what was asked of a ranking."""

    tuned: Tuned
    asked: AfterOptions
    time_left: TimeLeft
    """For what is solved besides."""
    rows: int
    """Rows of the table."""
    model: str | None
    """The file of its configuration, or the folder; None for plain numbers."""
    free_command: str = ""
    """What plans the same with free shardings."""
    yours: TrainingBaseline | None = None
    """What the user runs."""

    def text(self) -> Iterator[str]:
        """Yield a paragraph for each answer, and for what vendors publish."""
        if self._published:
            yield vendor_text(self.tuned.best, self._published)
        if self.standing is not None:
            yield standing_text(self.tuned.best, self.standing, file=str(self.asked.baseline_file))
        number, ranked = self.asked.explain, self.tuned.ranked
        if number is not None:
            if self._explained is not None:
                is_tied = ranked[number - 1] in tied(ranked)
                yield explain_text(self._explained, first="#1", other=f"#{number}", is_tied=is_tied)
            else:
                yield _n(
                    "--explain {number}: the ranking has only 1 row",
                    "--explain {number}: the ranking has only {count} rows",
                    count=len(ranked),
                    number=number,
                )

        best = self.tuned.best
        if self.asked.neighbours and best is not None:
            yield neighbours_text(best, self._neighbours)
        if self.asked.pareto and best is not None:
            yield from self._fronts.text()
        if self._two_level is not None:
            row = self._two_level.row
            one = self.tuned.ranked[row - 1] if row else None
            yield two_level_text(self._two_level, one, command=self.free_command)

    def fields(self) -> dict[str, object]:
        """Return the fields of the answers, and of what vendors publish."""
        best, found = self.tuned.best, dict[str, object]()
        if self._published:
            found["published"] = [published_fields(best, one) for one in self._published]
        if self.needed is not None:
            found["needed"] = needed_fields(self.needed)
        if self.standing is not None:
            found["baseline"] = standing_fields(self.tuned.best, self.standing)
        if self._explained is not None:
            found["explained"] = {"rank": self.asked.explain, **difference_fields(self._explained)}
        if self.asked.neighbours and best is not None:
            found["neighbours"] = [neighbour_fields(best, one) for one in self._neighbours]
        if self.asked.pareto and best is not None:
            found["pareto"] = self._fronts.fields()
        if self._two_level is not None:
            found["two_level"] = two_level_fields(self._two_level)
        return found

    def overtaken(self) -> "Answers":
        """Return the answers to the ranking with what they found in its place; the same where nothing is faster."""
        tuned = overtaken(self.tuned, self._solved_besides())
        return self if tuned is self.tuned else replace(self, tuned=simplest_first(tuned))

    def _solved_besides(self) -> Iterator[Candidate]:
        """Yield the configurations that were solved for answers."""
        if self.standing is not None:
            yield self.standing.candidate
            if self.standing.improved is not None:
                yield self.standing.improved
        if self.asked.neighbours and self.tuned.best is not None:
            yield from (one.candidate for one in self._neighbours if one.candidate is not None)
        if self.asked.pareto and self.tuned.best is not None:
            yield from self._fronts.solved

    @cached_property
    def needed(self) -> Needed | None:
        """What would do where nothing is legal or fits; None where something does, or may."""
        if self.tuned.best is not None or isfinite(self.tuned.lower_bound_ns) or was_interrupted():
            return None
        seconds = min(max(self.time_left.seconds, _LEAST_SECONDS), _NEEDED_SECONDS)
        with shown_step(_("looking for what would fit")):
            return needed(self.tuned.question, TimeLeft.of(seconds))

    @cached_property
    def standing(self) -> Standing | None:
        """Where what the user runs stands; None without it."""
        if self.yours is None:
            return None
        with shown_step(_("ranking what you run")):
            return standing(self.tuned, self.yours.training, self.yours.plan, self._share("baseline"))

    @cached_property
    def _published(self) -> tuple[PublishedStanding, ...]:
        """What vendors publish for the model on these devices."""
        return tuple(published_standings(self.tuned))

    @cached_property
    def _fronts(self) -> Fronts:
        today = None if self.standing is None else self.standing.candidate
        return Fronts(tuned=self.tuned, today=today, time_left=self._share("pareto"))

    @cached_property
    def _two_level(self) -> TwoLevel | None:
        """What free shardings could gain; None where that was not asked or nothing fits."""
        if self.asked.refine is None or self.tuned.best is None:
            return None
        assert self.model is not None
        refiner, config = refiner_named(self.asked.refine), read_config(config_path(self.model))
        answer: TwoLevel = refiner.answer(self.tuned, config, self._share("refine"), rows=self.rows)
        return answer

    @cached_property
    def _explained(self) -> Difference | None:
        """Why the row that was asked for is not the first; None without one."""
        number, ranked = self.asked.explain, self.tuned.ranked
        if number is None or number > len(ranked):
            return None
        return difference(ranked[0], ranked[number - 1])

    @cached_property
    def _neighbours(self) -> tuple[Neighbour, ...]:
        """What is one step away from the first row."""
        best, time_left = self.tuned.best, self._share("neighbours")
        assert best is not None
        with shown_step(_("looking one step away")):
            return tuple(neighbours(best, lambda training: self._solved(training, time_left), time_left))

    def _share(self, name: str) -> TimeLeft:
        """Return what is left for an answer, with those after it in mind."""
        names = self.asked.names
        later = names[names.index(name) :]
        return self.time_left.share(_WEIGHTS[name] / sum(_WEIGHTS[each] for each in later))

    def _solved(self, training: Training, time_left: TimeLeft) -> Candidate | None:
        """Return a configuration as the rows are solved, the one of the ranking where that is."""
        known = next((one for one in self.tuned.ranked if one.training == training and one.status is not None), None)
        return known or solved(self.tuned.question, training, time_limit_s=time_left.at_most(_SECONDS).seconds)
