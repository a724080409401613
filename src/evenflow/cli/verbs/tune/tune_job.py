"""What ``evenflow tune`` is asked for, from its options: a question."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from evenflow.cli.shared import options
from evenflow.cli.shared.training.training_options import KINDS, usual_precision
from evenflow.cli.verbs.tune.axis_options import option_of
from evenflow.cli.verbs.tune.tune_options import ALL, TuneOptions
from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.topology import Topology
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.profiles.accelerator_file import accelerator_given, accelerator_path, read_accelerator_file
from evenflow.schedule import FAMILIES, family_name
from evenflow.targets.tuning import for_framework
from evenflow.tune.limits import check_question
from evenflow.tune.question import Question


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneJob:
    """A question, and what was assumed of its model."""

    question: Question
    notes: tuple[str, ...]


def tune_job(asked: TuneOptions, *, given: Collection[str]) -> TuneJob:
    """Return the job of a command line, of whose options those `given` were written out.

    Raises:
        InputError: an option that breaks a rule, or a file that cannot be read.
    """
    accelerator = _accelerator(asked)
    found = asked.described.described(asked.sequence)
    _check_version(asked)
    question = Question(
        model=found.model,
        topology=Topology(accelerator=accelerator, domain_devices=asked.gpus_per_node or accelerator.link_devices),
        devices=asked.gpus,
        global_batch=asked.global_batch,
        sequence=asked.sequence,
        memory_limit_bytes=options.memory_limit(asked.memory) or accelerator.memory_bytes,
        precision=asked.precision or usual_precision(accelerator),
        fixed=asked.fixed,
        most=asked.most,
        recompute=None if asked.recompute is None else KINDS[asked.recompute],
    )
    question = for_framework(question, asked.target, asked.asked_version, schedules=_schedules(asked))
    usual = None if asked.target is None else question.software
    question = replace(question, software=asked.behaviour.software(usual, given=given))
    if asked.target is None or "context_exchange" in given:
        question = replace(question, rules=replace(question.rules, context_exchange=asked.behaviour.context_exchange))
    check_question(question, named=option_of)
    return TuneJob(question=question, notes=found.notes)


def accelerator_file(asked: TuneOptions) -> Path | None:
    """Return the file of the accelerator that is read; None for a name."""
    return asked.calibration or accelerator_path(asked.accelerator)


def _accelerator(asked: TuneOptions) -> Accelerator:
    if asked.calibration is not None:
        if asked.accelerator is not None:
            rule = _("must not be given beside --calibration, which says it")
            remedy = _("leave one of the two out")
            raise InputError(value=asked.accelerator, rule=rule, place="--accelerator", remedy=remedy)
        return read_accelerator_file(asked.calibration)
    if asked.accelerator is None:
        rule, remedy = _("must be given where no --calibration is"), _("add it, such as --accelerator h100")
        raise InputError(value=None, rule=rule, place="--accelerator", remedy=remedy)
    return accelerator_given(asked.accelerator)


def _check_version(asked: TuneOptions) -> None:
    if asked.target is None and asked.asked_version is not None:
        rule = _("must come with --target, the framework whose version it is")
        raise InputError(value=asked.asked_version, rule=rule, place="--version-of", remedy=_("add --target"))


def _schedules(asked: TuneOptions) -> tuple[str, ...]:
    """Return the schedules that are named, as far as they can be compared in earnest and run."""
    if asked.schedules is None:
        return ()
    if asked.schedules.strip().lower() != ALL:
        return tuple(dict.fromkeys(family_name(name.strip(), also=(ALL,)) for name in asked.schedules.split(",")))
    names = [name for name, family in FAMILIES.items() if not family.comparison_only]
    if asked.target is None:
        return tuple(names)
    abilities = asked.target.abilities(asked.target.version(asked.asked_version))
    return tuple(name for name in names if abilities.own_order or name in abilities.schedules)
