"""Two numbers from two systems: does the model of the pipeline predict the other systems of a submission?

Systems that train the same model with the same software, split in the same way, differ in their number of microbatches
and of data-parallel copies. Of each such group the two with the fewest and the most microbatches are known. They give
one factor on all work of the simulated pipeline and one constant per step; the others are predicted with these.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.published.scores import Error, score
from benchmarks.table import aligned
from evenflow.errors import InputError
from evenflow.profiles.measured.assumptions import completed
from evenflow.profiles.measured.run import MeasuredRun
from evenflow.profiles.measured.to_calibrate import measurement_of

LEAST = 3
"""Two known systems and one to predict."""
AIM = 0.015
"""The error that two numbers should leave, as a share."""
_SAME = (
    "source", "hardware", "gpus_per_node", "model", "precision", "seq", "tp", "cp", "ep", "pp", "vpp", "mbs",
    "schedule", "layout", "recompute", "recompute_detail",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoNumbers:
    """What two systems of a group say of the others."""

    publication: str
    hardware: str
    known: tuple[str, str]
    factor: float
    """Of the pipeline's work, against the prediction without measurements."""
    constant_s: float
    """Seconds of a step beside its pipeline."""
    errors: tuple[Error, ...]
    """Of the steps of the others, in s."""


def two_numbers(files: Mapping[str, Sequence[MeasuredRun]]) -> list[TwoNumbers]:
    """Return the results of every group that has enough systems with different numbers of microbatches."""
    groups: dict[tuple[object, ...], list[MeasuredRun]] = {}
    for run in (completed(run) for runs in files.values() for run in runs):
        if run.step_s is not None and not run.lacks:
            software = run.ref.partition(":")[0]  # the results of one publication
            groups.setdefault((software, *(getattr(run, name) for name in _SAME)), []).append(run)
    return [found for runs in groups.values() if len(runs) >= LEAST and (found := _of_group(runs))]


def _of_group(runs: Sequence[MeasuredRun]) -> TwoNumbers | None:
    ordered = sorted(runs, key=lambda run: (run.microbatches or 0, run.id))
    few, many = ordered[0], ordered[-1]
    try:
        pipeline_s = {run.id: _pipeline_s(run) for run in ordered}
    except InputError:
        return None
    difference = pipeline_s[many.id] - pipeline_s[few.id]
    if few.microbatches == many.microbatches or not difference:
        return None
    factor = (_step_s(many) - _step_s(few)) / difference
    constant = _step_s(few) - factor * pipeline_s[few.id]
    errors = [
        Error(id=run.id, predicted=factor * pipeline_s[run.id] + constant, measured=_step_s(run))
        for run in ordered[1:-1]
    ]
    return TwoNumbers(
        publication=few.ref.partition(":")[0], hardware=few.hardware or "", known=(few.id, many.id), factor=factor,
        constant_s=constant, errors=tuple(errors),
    )  # fmt: skip


def _pipeline_s(run: MeasuredRun) -> float:
    measurement = measurement_of(run)
    return measurement.prediction(measurement.reached).simulation.makespan_ns / 1e9


def _step_s(run: MeasuredRun) -> float:
    assert run.step_s is not None
    return run.step_s


def two_numbers_table(groups: Iterable[TwoNumbers]) -> str:
    """Return how far the predicted systems are off, by publication and hardware."""
    errors: dict[tuple[str, str], list[tuple[Error, ...]]] = {}
    for group in groups:
        errors.setdefault((group.publication, group.hardware), []).append(group.errors)
    rows = []
    for (publication, hardware), of_groups in errors.items():
        every = [error for of_group in of_groups for error in of_group]
        found = score(every)
        assert found is not None
        beyond = sum(abs(error.relative) > AIM for error in every)
        rows.append(
            [
                f"{publication}, {hardware}", str(len(of_groups)), str(found.count), f"{100 * found.mape:.2f}",
                f"{100 * found.worst:+.2f}", found.worst_id, str(beyond),
            ]
        )  # fmt: skip
    header = ["publication", "groups", "predicted", "MAPE %", "worst %", "its run", f"beyond {100 * AIM} %"]
    return aligned(header, rows)
