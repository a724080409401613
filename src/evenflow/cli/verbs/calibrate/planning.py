"""Proposes runs to calibrate on, and writes them as the script of a job array and as rows to fill in."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from evenflow.cli.shared.model_config import config_path
from evenflow.cli.shared.targets.target_options import version_of
from evenflow.cli.shared.training.training_options import usual_precision
from evenflow.cli.verbs.calibrate.job_array import job_array
from evenflow.cli.verbs.calibrate.planning_options import PlanningOptions
from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.topology import Topology
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.predict.calibration.measurement import Quantity
from evenflow.predict.calibration.tunable import Tunable, tunables
from evenflow.predict.prediction import Prediction
from evenflow.predict.software import usual_software
from evenflow.profiles.measured.planned_runs import PlannedRun, candidates, planned_runs
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.profiles.transformer.config_file import read_transformer
from evenflow.targets.refusal import refusal
from evenflow.targets.target import Written
from evenflow.targets.tuning import for_framework
from evenflow.tune.limits import check_question
from evenflow.tune.question import TuningQuestion

_SCHEDULES = ("1f1b", "interleaved")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedRuns:
    """The runs that tell most, and what they were chosen from and for."""

    runs: tuple[PlannedRun, ...]
    tunables: tuple[Tunable, ...]
    candidates: int


def proposed(
    planning: PlanningOptions,
    accelerator: Accelerator,
    names: tuple[str, ...],
    *,
    stem: str,
    predicted: Callable[[], None],
) -> ProposedRuns:
    """Return the runs for the parameters called `names`, all of those of step times where there are none.

    Raises:
        InputError: no number of devices, a configuration that cannot be read, or nothing that fits in memory.
    """
    if planning.gpus is None:
        raise InputError(
            rule=_("must be given with --plan-runs"), place="--gpus", remedy=_("give the devices that there are")
        )
    chosen = tuple(tunable for tunable in tunables(names) if tunable.quantity is Quantity.TIME)
    if not chosen:
        raise InputError(rule=_("must have a parameter of step times"), place="--fit")
    every = [
        candidate
        for file in planning.configurations
        for candidate in candidates(_question(planning, accelerator, file), can_run=_ability(planning))
    ]
    runs = planned_runs(every, chosen, planning.num_runs, stem=stem, predicted=predicted)
    return ProposedRuns(runs=runs, tunables=chosen, candidates=len(every))


def _question(planning: PlanningOptions, accelerator: Accelerator, file: str) -> TuningQuestion:
    precision = planning.precision or usual_precision(accelerator)
    assert planning.gpus is not None
    question = TuningQuestion(
        model=read_transformer(Path(config_path(file))).model,
        topology=Topology.of(accelerator, planning.gpus_per_node),
        devices=planning.gpus,
        global_batch=planning.gpus,
        sequence=planning.sequence,
        memory_limit_bytes=accelerator.memory_bytes,
        precision=precision,
        software=usual_software(precision),
        schedules=_SCHEDULES,
        allow_empty=False,
    )
    version_of(planning.target, planning.asked_version)
    question = for_framework(question, planning.target, planning.asked_version)
    check_question(question)
    return question


def _ability(planning: PlanningOptions) -> Callable[[Prediction], bool]:
    target = planning.target
    if target is None:
        return lambda prediction: True
    abilities = target.abilities(target.version(planning.asked_version))
    return lambda prediction: refusal(prediction.simulation.plan, abilities, title=target.title) is None


def script(proposal: ProposedRuns, planning: PlanningOptions, *, stem: str, command: str) -> str:
    """Return the script of a job array, with the settings of the framework where one is named."""
    written = [_written(planned, planning) for planned in proposal.runs] if planning.target is not None else []
    return job_array(proposal.runs, written, stem=stem, command=command)


def _written(planned: PlannedRun, planning: PlanningOptions) -> Written:
    target, training, plan = planning.target, planned.measurement.training, planned.prediction.simulation.plan
    assert target is not None
    version = target.version(planning.asked_version)
    if target.write_degrees is None:
        return target.written(plan, version)
    degrees = PlannedDegrees(
        degrees=training.degrees,
        replicas=1,
        microbatch=training.microbatch,
        num_microbatches=training.microbatches,
        sequence=training.sequence,
    )
    return target.written_degrees(plan, degrees, version)
