"""What a report shows: timelines of one order each, planned or measured, with what is known of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from evenflow.draw.memory_curve_picture import CurvePoint
from evenflow.schedule import Schedule
from evenflow.simulate import EncoderParts, IdleGaps, IdleTime, PathShare

Integers = NDArray[np.int64]


class Kind(Enum):
    """Where the times of a timeline are from; its value is the word in the page's data."""

    PLAN = "plan"
    MEASURED = "measured"


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class ShownMemory:
    """Memory of every rank over time."""

    static_bytes: tuple[int, ...]
    """Bytes of weights, gradients, optimizer state and constant memory, and what is set aside for others, by rank."""
    working_bytes: tuple[int, ...]
    """Bytes that an action needs for itself at most, and those set aside for other ranks, by rank; held from the first
    action on.
    """
    changes: Integers
    """Bytes that each action takes (a forward at its start) or frees (at its end), shape [num_actions]; without any
    backward a forward frees at its end what it took. With `end_changes`, those at the starts of all actions.
    """
    end_changes: Integers | None = None
    """Where anything moves to the host, bytes that each action takes or frees at its end beside."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class ShownCopies:
    """Copies of activations to the host, or of all back; arrays have an entry for each, in the order of the actions."""

    actions: Integers
    """The forward that made what leaves, or the backward that needs what comes back."""
    start_ns: Integers
    end_ns: Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWork:
    """What one step works through, beside the number of its microbatches: only equal work compares by its steps."""

    layers: int | None = None
    """Layers of the model; None where they are not known, as of a measured step."""
    microbatch_ns: int | None = None
    """Time of all layers on one microbatch, without recomputation, all ranks together."""
    tokens: int | None = None
    """Tokens of a step on all devices, where they are known: these count then, whatever the degrees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A sentence of the decision, on top of the page."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBlock:
    """What to copy to run a plan."""

    title: str
    """The framework, with its version; blocks of one framework follow each other."""
    text: str
    what: str = ""
    """What the text is and where it goes."""
    note: str = ""
    """What the framework loses, and what must be known beside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTable:
    """Rows of text on top of the page, as a ranking of which it shows the first timelines."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Shown:
    """One timeline of a report; arrays have the shape [num_actions], indexed as in the schedule's arrays."""

    name: str
    kind: Kind
    schedule: Schedule
    start_ns: Integers
    end_ns: Integers
    makespan_ns: int
    step_ns: int | None = None
    """Time of the whole step where that is more than its pipeline, as with the optimizer's."""
    work: StepWork = StepWork()
    gaps_ns: Integers
    """Idle time before every action on its rank, then behind the last one of each, shape [num_actions + num_ranks]."""
    recompute_ns: Integers
    """Time of the recomputation at the beginning of every action."""
    inputs: Integers
    """Action that each one waits for beside its rank's order; -1: none."""
    message_ns: Integers
    """Time that the input travels."""
    causes: IdleGaps | None = None
    """Gaps by cause; None where they are not known, as of a measured step."""
    waiting_ns: Integers | None = None
    """Of a measured step, the part of every gap in which the rank waits, shaped as `gaps_ns`; the rest is
    communication. None where the causes are those of a prediction.
    """
    idle: tuple[IdleTime, ...] | None = None
    """Idle time of every rank by cause."""
    exposed_ns: tuple[int, ...] | None = None
    """Time in which every rank exchanges tokens with nothing beside that; None where no layer is known to."""
    path: tuple[PathShare, ...] = ()
    """What every rank has of a longest path; empty where that is not known."""
    copies: tuple[ShownCopies, ShownCopies] | None = None
    """Copies to the host and back; None where nothing moves."""
    encoders: tuple[EncoderParts, ...] = ()
    """What encoders do beside the pipeline, rank by rank in the order of time: forwards, and backwards where they are
    trained; none where there are no such encoders. Times are from the beginning of the pipeline.
    """
    saved_ns: Integers | None = None
    """What each forward saves that runs beside the backward behind it; -1: it runs beside none; None: none does."""
    memory: ShownMemory | None = None
    peak_bytes: tuple[int, ...] | None = None
    """Highest memory of every rank; it can be known where its course is not."""
    limit_bytes: int | None = None
    """Bytes that each rank may use."""
    stage_layers: tuple[str, ...] = ()
    """Layers of every stage, in words; empty where nothing is known of them."""
    figures: tuple[tuple[str, str], ...] = ()
    """Names and values of what is told of the timeline in numbers."""
    certificate: str = ""
    """How good the plan is proven to be."""
    notes: tuple[str, ...] = ()
    decision: tuple[Advice, ...] = ()
    curve: tuple[CurvePoint, ...] = ()
    """What other memory would make of the step, with a limit; empty where that was not asked."""
    run: tuple[RunBlock, ...] = ()
    plan: str | None = None
    """The plan file, as ``--json`` writes it, which the page carries."""
    what_if: Mapping[str, object] | None = None
    """What the page's script needs to simulate the plan when somebody changes it there (see `what_if_of`); None where
    the timeline is of no plan that it could change.
    """

    @property
    def busy_ns(self) -> Integers:
        """StepWork of every rank, shape [num_ranks]."""
        busy = np.zeros(self.schedule.num_ranks, dtype=np.int64)
        np.add.at(busy, self.schedule.ranks, self.end_ns - self.start_ns)
        return busy

    @property
    def rank_waiting_ns(self) -> Integers | None:
        """Time of a measured step in which every rank waits, shape [num_ranks]; None where that is not known."""
        if self.waiting_ns is None:
            return None
        waiting = np.zeros(self.schedule.num_ranks, dtype=np.int64)
        np.add.at(waiting, self.schedule.ranks, self.waiting_ns[: self.schedule.num_actions])
        return np.asarray(waiting + self.waiting_ns[self.schedule.num_actions :])
