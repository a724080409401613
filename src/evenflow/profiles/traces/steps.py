"""The steps of a trace, and what each layer did in them.

A step has M microbatches, so every layer runs forward M times in it. That rule checks the step markers, and replaces
them where a trace has none that fit:

    marker     |------- step 0 -------|------- step 1 -------|
    layer 7    f f f f  b f b f b …     f f f f  b f b …

A scope without a number in its name is that of several layers and runs M times for each of them.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from evenflow.errors import InputError
from evenflow.language import _, looked_up, to_translate
from evenflow.profiles.traces.names import BODY, Match, is_numbered
from evenflow.profiles.traces.trace import BACKWARD, FORWARD, Occurrence, StepMarkers, Trace

LayerKey = tuple[Match, str]
"""One layer: its kind, and its scope."""

COUNTED_FORWARDS = to_translate("counted forwards")
"""What told the steps where no marker does."""


PartTimes = tuple[int, int, int]
"""Times of dispatch, MLP and combine (see `PassHalves`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTotal:
    """The total time of one layer's forwards and backwards in one step."""

    forwards: int = 0
    forward_ns: int = 0
    backwards: int = 0
    backward_ns: int = 0
    forward_parts_ns: PartTimes = (0, 0, 0)
    backward_parts_ns: PartTimes = (0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The steps of a trace."""

    origin: str
    """How the steps were told apart."""
    number: int
    totals: Mapping[LayerKey, Mapping[int, StepTotal]]
    """Totals by layer and step; layers without a forward are left out."""


def find_steps(trace: Trace, *, num_microbatches: int) -> Steps:
    """Return the steps of a trace, by the first way to tell them that agrees with the microbatches.

    Raises:
        InputError: no way agrees.
    """
    layers = _by_layer(trace.occurrences)
    by_marker = [_between(layers, markers) for markers in trace.markers if markers.windows]
    counted = _counted(layers, num_microbatches)
    for steps in [*by_marker, *([counted] if counted else [])]:
        if _agrees(steps, num_microbatches):
            return steps
    checked = _checked(layers)
    for steps in by_marker:
        # The profiler may have made one row of several forwards where a stage has a single layer.
        if len(checked) == 1 and len(_counts(steps, checked[0])) == 1:
            return steps
    seen = [
        _("{counts} times between {origin}", counts=_range(steps, checked), origin=looked_up(steps.origin))
        for steps in by_marker
    ]
    total = {len(layers[key][FORWARD]) for key in checked}
    seen.append(_("{counts} times in all", counts=_span(total)))
    raise InputError(
        value=num_microbatches,
        rule=_("must be how often a layer runs forward in a step; here it runs {seen}", seen=", ".join(seen))
        if by_marker
        else _(
            "must be how often a layer runs forward in a step; here it runs {seen}, and no marker such as "
            "ProfilerStep#1 tells the steps",
            seen=", ".join(seen),
        ),
        place=f"{trace.file}: microbatches",
        remedy=_("give the microbatches of the profiled run, and profile whole steps"),
    )


def _by_layer(occurrences: Iterable[Occurrence]) -> dict[LayerKey, dict[str, list[Occurrence]]]:
    """Return occurrences by layer and phase, each in order of time; layers without a forward are left out."""
    layers: dict[LayerKey, dict[str, list[Occurrence]]] = defaultdict(lambda: {FORWARD: [], BACKWARD: []})
    for occurrence in sorted(occurrences, key=lambda occurrence: occurrence.start_ns):
        layers[occurrence.match, occurrence.scope][occurrence.phase].append(occurrence)
    return {key: phases for key, phases in layers.items() if phases[FORWARD]}


def _checked(layers: Iterable[LayerKey]) -> list[LayerKey]:
    """Return the layers that must run once for each microbatch: those of the body, where there are any."""
    keys = list(layers)
    return [key for key in keys if key[0].role == BODY] or keys


def _between(layers: Mapping[LayerKey, Mapping[str, Sequence[Occurrence]]], markers: StepMarkers) -> Steps:
    """Return steps from markers; what starts outside all of them is in none."""
    starts = [start for start, _ in markers.windows]

    def step_of(occurrence: Occurrence) -> int:
        step = bisect_right(starts, occurrence.start_ns) - 1
        return step if step >= 0 and occurrence.start_ns < markers.windows[step][1] else -1

    return Steps(
        origin=markers.name,
        number=len(starts),
        totals={
            key: _totals((step_of(run), run) for runs in phases.values() for run in runs)
            for key, phases in layers.items()
        },
    )


def _counted(layers: Mapping[LayerKey, Mapping[str, Sequence[Occurrence]]], num_microbatches: int) -> Steps | None:
    """Return steps from the number of forwards of each numbered layer; a single step where no layer is numbered."""
    numbers = {len(layers[key][FORWARD]) for key in _checked(layers) if is_numbered(key[1])}
    if len(numbers) > 1:
        return None
    number = max(min(numbers) // num_microbatches, 1) if numbers else 1
    return Steps(
        origin=COUNTED_FORWARDS,
        number=number,
        totals={
            key: _totals(
                (place * number // len(runs), run) for runs in phases.values() for place, run in enumerate(runs)
            )
            for key, phases in layers.items()
        },
    )


def _totals(placed: Iterator[tuple[int, Occurrence]]) -> dict[int, StepTotal]:
    """Return the sums by step of occurrences with their step."""
    sums: dict[int, dict[str, list[int]]] = defaultdict(lambda: {FORWARD: [0] * 5, BACKWARD: [0] * 5})
    for step, occurrence in placed:
        if step >= 0:
            entry = sums[step][occurrence.phase]
            entry[0] += 1
            entry[1] += occurrence.time_ns
            if (halves := occurrence.halves) is not None:
                for place, part_ns in enumerate((halves.dispatch_ns, halves.mlp_ns, halves.combine_ns), start=2):
                    entry[place] += part_ns
    return {
        step: StepTotal(
            forwards=phases[FORWARD][0],
            forward_ns=phases[FORWARD][1],
            backwards=phases[BACKWARD][0],
            backward_ns=phases[BACKWARD][1],
            forward_parts_ns=(phases[FORWARD][2], phases[FORWARD][3], phases[FORWARD][4]),
            backward_parts_ns=(phases[BACKWARD][2], phases[BACKWARD][3], phases[BACKWARD][4]),
        )
        for step, phases in sums.items()
    }


def _counts(steps: Steps, key: LayerKey) -> set[int]:
    """Return how often a layer runs forward in a step, over all steps."""
    nothing = StepTotal()
    return {steps.totals[key].get(step, nothing).forwards for step in range(steps.number)}


def _agrees(steps: Steps, num_microbatches: int) -> bool:
    """Whether every layer runs a whole number of times for each microbatch, numbered ones of a kind equally often."""
    numbered: dict[Match, set[int]] = defaultdict(set)
    for key in _checked(steps.totals):
        counts = _counts(steps, key)
        if len(counts) != 1 or min(counts) == 0 or min(counts) % num_microbatches:
            return False
        if is_numbered(key[1]):
            numbered[key[0]] |= counts
    return all(len(counts) == 1 for counts in numbered.values())


def _range(steps: Steps, keys: Iterable[LayerKey]) -> str:
    return _span(set[int]().union(*(_counts(steps, key) for key in keys)))


def _span(counts: set[int]) -> str:
    if len(counts) == 1:
        return str(min(counts))
    return _("{least} to {most}", least=min(counts), most=max(counts))
