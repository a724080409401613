"""Runs to calibrate on, as tables."""

import math
from collections.abc import Sequence

import numpy as np

from evenflow.cli.text.tables import aligned
from evenflow.language import _, _n
from evenflow.predict.calibration.least_squares import Array
from evenflow.predict.calibration.tunable import Tunable
from evenflow.profiles.measured.planned_runs import PlannedRun

_TOLD = 0.9
"""Of a standard error, what is left where a run tells of a parameter."""


def planned_runs_text(runs: Sequence[PlannedRun], tunables: Sequence[Tunable], *, device: str, candidates: int) -> str:
    """Return the runs with what each tells, and how well every parameter is known before and after all of them."""
    head = _n(
        "{count} run of {candidates} candidates tells most about {device}",
        "{count} runs of {candidates} candidates tell most about {device}",
        count=len(runs),
        candidates=candidates,
        device=device,
    )
    return "\n\n".join([head, _runs_table(runs, tunables), _parameter_table(runs, tunables)])


def told_of(planned: PlannedRun, tunables: Sequence[Tunable]) -> list[str]:
    """Return the parameters that a run tells of, that of which it tells most first."""
    left: Array = planned.chosen.after / planned.chosen.before
    order = [int(place) for place in np.argsort(left, kind="stable")]
    return [tunables[place].name for place in order if left[place] <= _TOLD] or [tunables[order[0]].name]


def _runs_table(runs: Sequence[PlannedRun], tunables: Sequence[Tunable]) -> str:
    header = [
        _("run"), _("model"), _("devices"), _("tensor"), _("pipeline"), _("chunks"), _("data"), _("microbatch"),
        _("batch"), _("recompute"), _("step ms"), _("tells of"),
    ]  # fmt: skip
    rows = [
        [
            planned.run.id, planned.run.model or "", *(
                f"{size:,}" for size in (
                    planned.run.gpus or 1, planned.run.tp or 1, planned.run.pp or 1, planned.run.vpp or 1,
                    planned.run.dp or 1, planned.run.mbs or 1, planned.run.gbs or 1,
                )
            ), planned.run.recompute or "", f"{planned.prediction.step_ns / 1e6:,.0f}",
            ", ".join(told_of(planned, tunables)),
        ]
        for planned in runs
    ]  # fmt: skip
    return aligned(header, rows, left={0, 1, 9, 11}, leaving=(1, 5, 8, 6))


def _parameter_table(runs: Sequence[PlannedRun], tunables: Sequence[Tunable]) -> str:
    header = [_("parameter"), _("known within a factor of"), _("after these runs")]
    before, after = runs[0].chosen.before, runs[-1].chosen.after
    rows = [
        [tunable.name, f"{math.exp(before[place]):.2f}", f"{math.exp(after[place]):.2f}"]
        for place, tunable in enumerate(tunables)
    ]
    return aligned(header, rows, left={0})
