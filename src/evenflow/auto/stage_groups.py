"""Stages in a row that are alike, to be told of once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from evenflow.auto.placed_pipeline import PlacedStage
from evenflow.language import _, _n, joined


@dataclass(frozen=True, kw_only=True)
class StageGroup:
    """Stages in a row with equally many layers and devices, which are used for the same."""

    stages: tuple[PlacedStage, ...]

    @property
    def where(self) -> str:
        """The stages, their layers and their devices."""
        first, last = self.stages[0], self.stages[-1]
        values = {"layers": span(first.first, last.end), "shape": first.submesh}
        if first is last:
            return _n(
                "stage {stage}: layer {layers} on {shape} devices",
                "stage {stage}: layers {layers} on {shape} devices",
                count=first.end - first.first,
                stage=first.stage,
                **values,
            )
        return _(
            "stages {stages}: layers {layers}, {count} each, on {shape} devices each",
            stages=span(first.stage, last.stage + 1),
            count=first.end - first.first,
            **values,
        )

    @property
    def how(self) -> str:
        """What their devices are used for, and what they recompute."""
        first = self.stages[0]
        phrases = [
            first.use.words,
            *(
                _n("{kind} recompute of {count} layer", "{kind} recompute of {count} layers", count=count, kind=kind)
                for kind, count in first.recompute.items()
            ),
        ]
        return joined(phrases)


def stage_groups(stages: Sequence[PlacedStage]) -> tuple[StageGroup, ...]:
    """Return stages in the order of the model, those that are alike and follow one another as one."""

    def likeness(stage: PlacedStage) -> tuple[object, ...]:
        return stage.submesh, stage.end - stage.first, stage.use.words, tuple(stage.recompute.items())

    return tuple(StageGroup(stages=tuple(group)) for _key, group in groupby(stages, likeness))


def summary(stages: Sequence[PlacedStage]) -> str:
    """Return one sentence of what the plan is."""
    how = [(words, len(list(group))) for words, group in groupby(one.how for one in _each(stages))]
    if len(stages) == 1:
        return _("one stage: {how}", how=how[0][0])
    if len(how) == 1:
        return _("{count} stages, each {how}", count=len(stages), how=how[0][0])
    told, first = [], 0
    for words, count in how:
        shown = span(first, first + count)
        told.append(_n("stage {span}: {how}", "stages {span}: {how}", count=count, span=shown, how=words))
        first += count
    return _("{count} stages: {told}", count=len(stages), told=joined(told))


def _each(stages: Sequence[PlacedStage]) -> Iterator[StageGroup]:
    return (StageGroup(stages=(stage,)) for stage in stages)


def span(first: int, end: int) -> str:
    """Return numbers [first, end) as text: ``3`` or ``3-5``."""
    return str(first) if end - first == 1 else f"{first}-{end - 1}"
