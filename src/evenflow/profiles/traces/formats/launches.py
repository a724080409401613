"""Ranges on the host, links between them, and the work on the device that they launched."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.profiles.traces.formats.columns import IntegerColumns, Integers, joined
from evenflow.profiles.traces.formats.kernel_names import COMPUTING, Doing
from evenflow.profiles.traces.names import Match

AUTOGRAD_NODE = "autograd::engine::evaluate_function"
"""The range in which autograd evaluates a node of the backward."""


@dataclass(frozen=True, slots=True)
class LaunchScope:
    """A layer, as a range on a host thread."""

    thread: int
    start_ns: int
    end_ns: int
    match: Match
    name: str


MOST_SCOPES = 200_000
"""Most runs of layers in one trace: 100 layers, 100 microbatches, and 20 steps."""


def check_scopes(count: int, *, file: str) -> None:
    """Refuse a trace with more runs of layers than are held in memory."""
    if count > MOST_SCOPES:
        raise InputError(
            value=count,
            rule=_("must have at most {limit:,} runs of layers", limit=MOST_SCOPES),
            place=file,
            remedy=_("profile fewer steps, or name the layers so that nothing else is taken for one"),
        )


@dataclass(frozen=True, slots=True)
class BackwardNode:
    """The evaluation of one node by autograd, as a range on a host thread."""

    thread: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class LaunchLink:
    """A link from the forward call at a time on a thread to the backward node that it made."""

    forward_thread: int
    forward_ns: int
    backward_thread: int
    backward_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceWork:
    """Work on a device and the launches of it: arrays with one entry for each kernel."""

    thread: Integers
    launch_ns: Integers
    start_ns: Integers
    end_ns: Integers
    doing: Integers
    """What each does (see `Doing`)."""

    @property
    def is_collective(self) -> npt.NDArray[np.bool_]:
        """Collectives, exchanges and messages."""
        return ~np.isin(self.doing, COMPUTING)

    @property
    def is_exchange(self) -> npt.NDArray[np.bool_]:
        """Collectives that exchange tokens between experts."""
        return np.isin(self.doing, (Doing.EXCHANGE, Doing.SEND_RECEIVE))


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchedRanges:
    """Ranges on the host of one process, and the work that was launched."""

    file: str
    scopes: Sequence[LaunchScope]
    work: DeviceWork
    names: Mapping[str, int]
    """Names of all ranges with their numbers, for messages."""
    steps: Sequence[tuple[int, int]] = ()
    """Start and end of the ranges that mark whole steps."""
    nodes: Sequence[BackwardNode] = ()
    """What autograd evaluated."""
    links: Sequence[LaunchLink] = ()
    """From forward calls to what they made autograd evaluate."""
    label: str = ""
    """What the trace calls the process."""
    has_own_times: bool = False
    """Whether ranges are what they name by themselves, as rows of a device or of a simulator, not what launched it."""
    is_on_device: bool = True
    """Whether times are those of a device."""


def work_of_launches(calls: IntegerColumns, kernels: IntegerColumns) -> DeviceWork:
    """Join kernels, copies and fills to the calls that launched them, by their correlation.

    `calls` has the columns correlation, thread, time; `kernels` has correlation, start, end, what it is doing.
    """
    called, thread, launch_ns = calls.columns()
    correlation, start, end, doing = kernels.columns()
    call, kernel = joined(called, correlation)
    return DeviceWork(
        thread=thread[call],
        launch_ns=launch_ns[call],
        start_ns=start[kernel],
        end_ns=end[kernel],
        doing=doing[kernel],
    )
