"""Groups neighbouring stages that are alike, so that texts and pictures describe them once."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from evenflow.language import _, _n, joined
from evenflow_torch.auto.placed_pipeline import PlacedStage


@dataclass(frozen=True, kw_only=True)
class StageGroup:
    """Neighbouring stages with equally many layers and devices, sharded alike."""

    stages: tuple[PlacedStage, ...]

    @property
    def extent(self) -> str:
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
        """How the stages are sharded, and what they recompute."""
        first = self.stages[0]
        return joined([first.use.words, *_recomputations(first.recompute)])


def stage_groups(stages: Sequence[PlacedStage]) -> tuple[StageGroup, ...]:
    """Return the stages in the order of the model, with neighbours that are alike in one group."""

    def likeness(stage: PlacedStage) -> tuple[object, ...]:
        return stage.submesh, stage.end - stage.first, stage.use.words, tuple(stage.recompute.items())

    return tuple(StageGroup(stages=tuple(group)) for _key, group in groupby(stages, likeness))


_MOST_TOLD = 2
"""Ways to shard stages, and layers that are sharded otherwise, that a sentence tells of; tables have the others."""


def summary(stages: Sequence[PlacedStage]) -> str:
    """Return one sentence that describes the plan; stages with mostly the same sharding are named together."""
    if len(stages) == 1:
        return _("one stage: {how}", how=StageGroup(stages=tuple(stages)).how)
    alike: dict[str, list[PlacedStage]] = {}
    for stage in stages:
        alike.setdefault(stage.use.main_words, []).append(stage)
    if len(alike) == 1:
        return _("{count} stages {sizes}: {how}", count=len(stages), sizes=_sizes(stages), how=_how(stages))
    groups = sorted(alike.values(), key=len, reverse=True)
    told = [
        _n(
            "stage {spans} {sizes}: {how}",
            "stages {spans} {sizes}: {how}",
            count=len(group),
            spans=_spans(group),
            sizes=_sizes(group),
            how=_how(group),
        )
        for group in groups[:_MOST_TOLD]
    ]
    if left := sum(map(len, groups[_MOST_TOLD:])):
        told.append(_n("{count} stage otherwise", "{count} stages otherwise", count=left))
    return _("{count} stages: {told}", count=len(stages), told=joined(told))


def _sizes(stages: Sequence[PlacedStage]) -> str:
    """Return a phrase for how many layers each of the stages has."""
    counts = [stage.end - stage.first for stage in stages]
    return _n("of {layers} layer", "of {layers} layers", count=max(counts), layers=span(min(counts), max(counts) + 1))


def _how(stages: Sequence[PlacedStage]) -> str:
    """Return a phrase for how most layers of the stages are sharded, what they recompute, and how others are."""
    recompute: Counter[str] = Counter()
    for stage in stages:
        recompute.update(stage.recompute)
    others: dict[str, str] = {}
    for stage in stages:
        for name, phrase in stage.use.other_words:
            others.setdefault(phrase, name)
    told = [_("{name} {words}", name=name, words=phrase) for phrase, name in list(others.items())[:_MOST_TOLD]]
    how = stages[0].use.main_words
    for phrase in (*told, *_recomputations(recompute)):
        how = _("{words}, {more}", words=how, more=phrase)
    return how


def _recomputations(recompute: Mapping[str, int]) -> list[str]:
    """Return a phrase for each recompute kind that layers have."""
    return [
        _n("{kind} recompute of {count} layer", "{kind} recompute of {count} layers", count=count, kind=kind)
        for kind, count in recompute.items()
        if count
    ]


def _spans(stages: Sequence[PlacedStage]) -> str:
    """Return the numbers of stages as text, neighbours as one span, and "…" after the first few."""
    spans: list[tuple[int, int]] = []
    for stage in stages:
        if spans and spans[-1][1] == stage.stage:
            spans[-1] = spans[-1][0], stage.stage + 1
        else:
            spans.append((stage.stage, stage.stage + 1))
    shown = [span(*numbers) for numbers in spans[:_MOST_TOLD]]
    return ", ".join([*shown, "…"] if len(spans) > _MOST_TOLD else shown)


def span(first: int, end: int) -> str:
    """Return the numbers [first, end) as text: ``3`` or ``3-5``."""
    return str(first) if end - first == 1 else f"{first}-{end - 1}"
