"""What ``evenflow tune`` is asked for, from its options: a question."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from evenflow.cli.shared import options
from evenflow.cli.shared.targets.empty_cells import may_be_empty
from evenflow.cli.shared.targets.target_options import version_of
from evenflow.cli.shared.training.recompute_sets import PLACE
from evenflow.cli.shared.training.software_options import SettledSoftware
from evenflow.cli.shared.training.training_options import KINDS, host_update, topology_of, usual_precision
from evenflow.cli.text.tables import round_up_megabytes
from evenflow.cli.verbs.tune.axis_options import option_of
from evenflow.cli.verbs.tune.tune_options import ALL, TuneOptions
from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.generations import reach_assumed
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.predict.chosen_sets import named_sets
from evenflow.predict.transformer import Transformer
from evenflow.profiles.accelerator_file import accelerator_given, accelerator_path, read_accelerator_file
from evenflow.schedule import family_name
from evenflow.targets.tuning import for_framework, of_target, with_sets
from evenflow.tune.axes import Axis
from evenflow.tune.limits import all_schedules, check_question
from evenflow.tune.question import TuningQuestion
from evenflow.tune.space import most_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneJob:
    """A question, and what was assumed."""

    question: TuningQuestion
    assumed: tuple[str, ...]
    """Options that were not given, each with the value it has in all configurations."""
    notes: tuple[str, ...]
    """What was assumed of the model, or left out of it."""


def tune_job(asked: TuneOptions, *, given: Collection[str]) -> TuneJob:
    """Return the job of a command line, of whose options those `given` were written out.

    Raises:
        InputError: an option that breaks a rule, or a file that cannot be read.
    """
    accelerator = _accelerator(asked)
    found = asked.described.described(asked.sequence)
    version_of(asked.target, asked.asked_version)  # refuses one without a framework, before the long work
    question = TuningQuestion(
        model=found.model,
        topology=topology_of(accelerator, asked.gpus_per_node, asked.network),
        devices=asked.gpus,
        global_batch=asked.global_batch,
        sequence=asked.sequence,
        memory_limit_bytes=options.memory_limit(asked.memory) or accelerator.memory_bytes,
        confidence=asked.confidence,
        precision=asked.precision or usual_precision(accelerator),
        fixed=asked.axes.fixed,
        most=asked.axes.most,
        optimizer_offload=asked.optimizer_offload or 0.0,
        host_update=host_update(asked.optimizer_offload, asked.host_link, asked.host_update),
        allow_empty=may_be_empty(asked.allow_empty, asked.target, asked.asked_version, everywhere=True),
        recompute=None if asked.recompute is None else KINDS[asked.recompute],
    )
    schedules = _schedules(asked, question.model)
    question = for_framework(question, asked.target, asked.asked_version, schedules=schedules)
    usual = None if asked.target is None else question.software
    settled = asked.behaviour.settled(question.precision, usual=usual, given=given)
    question = replace(question, software=settled.software)
    if asked.target is None or "context_exchange" in given:
        question = replace(question, rules=replace(question.rules, context_exchange=asked.behaviour.context_exchange))
    question = question.calibrated
    check_question(question, named=option_of)
    if asked.recompute_sets is not None:
        question = with_sets(question, named_sets(asked.recompute_sets), place=PLACE, place_of_kind="--recompute")
    return TuneJob(question=question, assumed=tuple(_assumed(question, settled, given)), notes=found.notes)


def accelerator_file(asked: TuneOptions) -> Path | None:
    """Return the file of the accelerator that is read; None for a name."""
    return asked.calibration or accelerator_path(asked.accelerator)


def _assumed(question: TuningQuestion, settled: SettledSoftware, given: Collection[str]) -> Iterator[str]:
    """Yield what a command line left open, in the words of its options."""
    most = most_of(question)[Axis.CONTEXT]
    values: dict[str, str | int | None] = {
        "precision": question.precision,
        "gpus_per_node": question.topology.domain_devices if question.devices > 1 else None,
        "memory": f"{round_up_megabytes(question.memory_limit_bytes)}MB",
        "context_exchange": question.rules.context_exchange if min(most, question.devices) > 1 else None,
    }
    for name, value in values.items():
        if value is not None and name not in given:
            yield f"--{name.replace('_', '-')}={value}"
    accelerator = question.topology.accelerator
    reach = "" if accelerator.calibration else reach_assumed(accelerator.generation)
    if reach:
        yield reach
    yield from settled.left_open(question.precision, given=given, has_experts=question.model.experts is not None)


def _accelerator(asked: TuneOptions) -> Accelerator:
    if asked.calibration is not None:
        if asked.accelerator is not None:
            rule = _("must not be given beside --calibration, which says it")
            remedy = _("leave one of the two out")
            raise InputError(value=asked.accelerator, rule=rule, place="--accelerator", remedy=remedy)
        return read_accelerator_file(asked.calibration)
    if asked.accelerator is None:
        rule, remedy = _("must be given where no --calibration is"), _("add it, such as --accelerator h100")
        raise InputError(rule=rule, place="--accelerator", remedy=remedy)
    return accelerator_given(asked.accelerator, place="--accelerator")


def _schedules(asked: TuneOptions, model: Transformer) -> tuple[str, ...]:
    """Return the schedules that are named, as far as they can be compared in earnest and run."""
    if asked.schedules is None:
        return ()
    if asked.schedules.strip().lower() != ALL:
        written = (name.strip() for name in asked.schedules.split(","))
        return tuple(dict.fromkeys(family_name(name, also=(ALL,), place="--schedules") for name in written))
    names = all_schedules(model)
    if asked.target is None:
        return names
    return of_target(names, asked.target.abilities(asked.target.version(asked.asked_version)))
