"""Samples of the time of one layer for one microbatch, from the steps of a trace.

A sample is one layer in one counted step of one file: its total there, divided by the microbatches. The mean of the
samples is the layer's time, and how far they lie apart its spread.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from evenflow.language import _
from evenflow.profiles.traces.names import BODY, Match, is_numbered
from evenflow.profiles.traces.steps import COUNTED_FORWARDS, PartTimes, find_steps
from evenflow.profiles.traces.trace import Trace
from evenflow.profiles.traces.trace_files import shown_name

UNSTABLE_STEPS = 2
"""The first steps, in which the device warms up; left out where there are more."""


PartShares = tuple[Fraction, Fraction, Fraction]
"""Times of dispatch, MLP and combine for one microbatch (see `PassHalves`)."""
NO_PARTS: PartShares = (Fraction(), Fraction(), Fraction())
"""Those of a layer that exchanges nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Time of one layer for one microbatch, from one step of one file."""

    match: Match
    scope: str
    step: int
    forward_ns: Fraction
    backward_ns: Fraction | None
    """None where the trace does not show the backward of every forward."""
    forward_parts_ns: PartShares = NO_PARTS
    backward_parts_ns: PartShares = NO_PARTS


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """The numbers of steps and layers found in one file."""

    file: str
    source: str
    """Kind of the trace, and what its times are."""
    num_steps: int
    counted_steps: int
    """Number of steps that count: the last ones."""
    steps_from: str
    """How the steps were told apart."""
    num_layers: int | None
    """Body layers of the stage; None where their names and the steps do not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSamples:
    """Samples from one file, and how they were found."""

    report: FileReport
    samples: Sequence[Sample]
    notes: Sequence[str]


def samples_of(trace: Trace, *, num_microbatches: int) -> FileSamples:
    """Return the samples of one file.

    Raises:
        InputError: a trace whose steps cannot be told, or do not have `num_microbatches`.
    """
    steps = find_steps(trace, num_microbatches=num_microbatches)
    first = steps.number - max(steps.number - UNSTABLE_STEPS, 1)
    samples, unusual, layers = [], set(), 0
    for (match, scope), totals in steps.totals.items():
        runs = max(totals.values(), key=lambda total: total.forwards).forwards if totals else 0
        sharing = 1
        if match.role == BODY:
            if not is_numbered(scope):
                sharing = max(runs // num_microbatches, 1)
            elif runs != num_microbatches:
                unusual.add(runs)
            layers += sharing
        divisor = sharing * num_microbatches
        samples += [
            Sample(
                match=match,
                scope=scope,
                step=step,
                forward_ns=Fraction(total.forward_ns, divisor),
                backward_ns=Fraction(total.backward_ns, divisor) if total.backwards == total.forwards else None,
                forward_parts_ns=_shares(total.forward_parts_ns, divisor),
                backward_parts_ns=_shares(total.backward_parts_ns, divisor),
            )
            for step, total in sorted(totals.items())
            if step >= first and total.forwards
        ]
    name = shown_name(trace.file)
    notes = [
        _(
            "{name}: a layer runs forward {runs} times a step, not {num_microbatches}; its time is that of the step "
            "divided by {num_microbatches}: right for sequences in parts, wrong if the run had other microbatches",
            name=name,
            runs=runs,
            num_microbatches=num_microbatches,
        )
        for runs in sorted(unusual)
    ]
    is_guess = steps.origin == COUNTED_FORWARDS and not all(is_numbered(scope) for _, scope in steps.totals)
    report = FileReport(
        file=trace.file,
        source=trace.source,
        num_steps=steps.number,
        counted_steps=steps.number - first,
        steps_from=steps.origin,
        num_layers=None if is_guess else layers,
    )
    return FileSamples(report=report, samples=samples, notes=[*trace.notes, *notes])


def _shares(parts_ns: PartTimes, divisor: int) -> PartShares:
    dispatch_ns, mlp_ns, combine_ns = parts_ns
    return Fraction(dispatch_ns, divisor), Fraction(mlp_ns, divisor), Fraction(combine_ns, divisor)
