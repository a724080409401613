"""What a cell may hold, by the place in the network at which it is taken up."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenflow.simulate import Integers
from evenflow.solve.columns.cell_options import CellOptions, merged_runs
from evenflow.solve.problem import Problem


class PlacedOptions(NamedTuple):
    """The options of a cell, by the place at which it is taken up; several for a cell inside a run of equal layers."""

    starts: Integers
    """First option of each place and the end of all, shape [num_places + 1]."""
    targets: Integers
    """Place at which the next cell is taken up."""
    loads: Integers
    """Forward and backward together; those of a place ascend."""
    activations: Integers
    waiting: Integers
    moved: Integers
    working: Integers
    parameters: Integers
    faster: Integers
    """Option at the same place with the next shorter backward (see `CellOptions`), or -1."""
    origins: Integers
    """Index among the options of the cell."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PlacedRuns:
    """Where the runs of equal layers begin and end."""

    starts: Integers
    ends: Integers

    @classmethod
    def of(cls, problem: Problem) -> "PlacedRuns":
        """Return the runs of a problem."""
        sizes = np.array([run.count for run in merged_runs(problem)])
        return cls(starts=np.cumsum(sizes) - sizes, ends=np.cumsum(sizes))

    def placed(self, options: CellOptions, *, turns_back: bool) -> PlacedOptions:
        """Return the options of a cell by place: its first layer, or the end of its last one if its chunk turns back.

        There are several places for a cell inside a run.
        """
        first, inside = options.first_run, options.first_run == options.last_run
        start = np.where(inside, self.starts[first], self.ends[first] - options.in_first)
        repeats = np.where(inside, self.ends[first] - start - options.layers + 1, 1)
        first_of = np.cumsum(repeats) - repeats
        origins = np.repeat(np.arange(len(options)), repeats)
        offsets = np.arange(len(origins)) - first_of[origins]
        start = start[origins] + offsets
        end = start + options.layers[origins]
        source, target = (end, start) if turns_back else (start, end)
        order = np.lexsort(((options.forward_ns + options.backward_ns)[origins], source))
        position = np.empty_like(order)
        position[order] = np.arange(len(order))
        # The faster option has the same layers, hence as many places in the same order.
        faster = options.faster[origins]
        faster = np.where(faster >= 0, position[first_of[faster] + offsets * (faster >= 0)], -1)
        own = origins[order]
        return PlacedOptions(
            starts=np.searchsorted(source[order], np.arange(int(self.ends[-1]) + 2)),
            targets=target[order],
            loads=(options.forward_ns + options.backward_ns)[own],
            activations=options.activation_bytes[own],
            waiting=options.until_weight_bytes[own],
            moved=options.offloaded_bytes[own],
            working=options.working_bytes[own],
            parameters=options.parameter_bytes[own],
            faster=faster[order],
            origins=own,
        )


def no_options(num_layers: int) -> PlacedOptions:
    """Return the option of a chunk that is not there: at place 0, and without costs."""
    nothing = np.zeros(1, dtype=np.int64)
    return PlacedOptions(
        starts=np.minimum(np.arange(num_layers + 2), 1),
        targets=nothing,
        loads=nothing,
        activations=nothing,
        waiting=nothing,
        moved=nothing,
        working=nothing,
        parameters=nothing,
        faster=nothing - 1,
        origins=nothing,
    )
