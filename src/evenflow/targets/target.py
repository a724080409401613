"""A target: a framework, what it can run, and how plans are written for it and read from its configuration."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from evenflow.errors import InputError
from evenflow.language import _, _n
from evenflow.model import Abilities, Mtp, Plan
from evenflow.predict.software import usual_software
from evenflow.predict.training import Software
from evenflow.profiles.measured.logs.log_format import LogFormat
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.targets.further_tokens import without_mtp
from evenflow.targets.refusal import refusal
from evenflow.targets.stated_degrees import StatedDegrees
from evenflow.tune.rules import DegreeRules

_MOST_DIGITS = 9
"""Digits of a number in a version; a date has eight."""

Syntax = Literal["shell", "yaml", "toml", "python", "json", "csv", "text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One text of a written plan: a fragment to paste, or a file of its own."""

    title: str
    """What it is and where it goes, as a phrase: ``flags of pretrain_gpt.py``; translated."""
    syntax: Syntax
    text: str
    """The text, which ends with a newline."""
    file_name: str = ""
    """The usual name of a file that has this text alone, such as ``order.csv``; empty: a fragment to paste."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A plan in a framework's own configuration."""

    pieces: tuple[Piece, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that the plan needs."""
    notes: tuple[str, ...] = ()
    """What the user must know beside the pieces: sentences without a full stop, translated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenSizes:
    """What a user says of a run whose configuration does not say it; None where it is not said."""

    num_layers: int | None = None
    """Body layers of the network, but for those of multi-token prediction."""
    mtp_layers: int = 0
    """Body layers of multi-token prediction."""
    num_ranks: int | None = None
    num_microbatches: int | None = None
    may_be_alone: bool = False
    """Whether a run without a pipeline is wanted too, as a plan of one rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The plan that a framework's configuration asks for."""

    plan: Plan
    unknown: tuple[str, ...] = ()
    """Keys that have to do with the pipeline or recomputation and are not understood, each with its place."""
    notes: tuple[str, ...] = ()
    """What was assumed, or is not in the plan; translated."""
    place_of_sets: str = ""
    """The key that asks for a set of modules, with its place, where that does not name the modules themselves."""
    select_set: str = ""
    """The set of modules, a recompute kind, that the file's own word `select` means; empty: none, or several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A framework. Functions get one of `versions`."""

    name: str
    """Name on the command line, such as ``megatron``."""
    title: str
    """Name for people, such as ``Megatron-LM``."""
    versions: tuple[str, ...]
    """Versions with a syntax of their own; the last one is written unless another is asked for."""
    checked_with: str
    """The package whose own code reads what is written, such as ``megatron-core 0.16.1``; empty where it is written to
    the documentation and nothing has run it.
    """
    unchecked_versions: tuple[str, ...] = ()
    """Those of `versions` whose texts nothing of the framework has read."""
    page: str
    """Name of the page in docs/targets, without its ending."""
    abilities: Callable[[str], Abilities]
    adapter: str = ""
    """Name of the target that is this framework with an adapter that can run more; empty where there is none."""
    adapter_setting: str = ""
    """Setting that trains adapters of a width alone, such as ``lora_rank: {rank}``; empty where none is known."""
    frozen_parts: str = ""
    """What to freeze of each stage so that the embedding and the first layers, up to ``{count}``, are not trained, by
    the names that the framework has for them; empty where its stages name them otherwise than by their place in all.
    """
    write: Callable[[Plan, str], Written]
    """Return what a plan is in the framework's configuration; the plan keeps to `abilities`."""
    write_degrees: Callable[[Plan, PlannedDegrees, str], Written] | None = None
    """Return the same with what stages of several devices do; raises InputError for what the framework does not. None
    where degrees cannot be written.
    """
    degrees_checked_with: str = ""
    """The package whose own code builds devices and layers of the degrees that are written; empty where none has."""
    offloads_optimizer: Callable[[str], bool] = lambda version: False
    """Whether the host can keep and update a part of the optimizer's state, as `write_degrees` then says."""
    degree_rules: Callable[[str], DegreeRules] = lambda version: DegreeRules()
    """What the degrees of a training must keep to; by default what no training can."""
    software: Callable[[str], Software] = usual_software
    """Return what it does with the same mathematics, at a number format of the linear layers."""
    read: Callable[[str, str, GivenSizes], Baseline] | None = None
    """Return the plan in a text of the framework's configuration, given the name of its file and what the user says
    beside; raises InputError where it cannot be told.
    """
    read_degrees: Callable[[str, str], StatedDegrees] | None = None
    """Return what a text of the framework's configuration says of the degrees, given the name of its file; raises
    InputError for what they cannot be. None where files do not tell.
    """
    recognise: Callable[[str, str], bool] = lambda text, file: False
    """Whether a text, with the name of its file, looks like the framework's configuration."""
    apply: Callable[[str, str, Plan], str] | None = None
    """Return a user's file, given its text and name, with all that a plan decides and otherwise byte for byte the same;
    raises InputError.
    """
    logs: tuple[LogFormat, ...] = ()
    """How its training runs log their progress, for ``evenflow calibrate``."""

    told_version: Callable[[str, str], str | None] = lambda text, file: None
    """Return the version whose syntax a text has, given the name of its file; None where it does not tell."""

    def written(self, plan: Plan, version: str) -> Written:
        """Return what `plan` is in the framework's configuration; raises InputError for what it cannot run."""
        written = self.write(self.counted(plan, version), version)
        return self._with_mtp_note(written, plan, version)

    def written_degrees(self, plan: Plan, planned: PlannedDegrees, version: str) -> Written:
        """Return the same with what stages of several devices do, of a framework that can be told."""
        assert self.write_degrees is not None
        self.check_offload(planned.degrees.optimizer_offload, version)
        written = self.write_degrees(self.counted(plan, version), planned, version)
        return self._with_mtp_note(written, plan, version)

    def check_offload(self, part: float, version: str, *, place: str = "optimizer_offload") -> None:
        """Raise InputError, with its `place`, unless the host can keep this part of the optimizer's state."""
        if part and not self.offloads_optimizer(version):
            rule = _("must be 0 for {title}, for which evenflow knows no optimizer on the host", title=self.title)
            raise InputError(value=part, rule=rule, place=place)

    def counted(self, plan: Plan, version: str) -> Plan:
        """Return `plan` with the layers that the framework counts: most leave out those that predict further tokens."""
        return plan if self._counts_mtp(version) else without_mtp(plan)

    def _counts_mtp(self, version: str) -> bool:
        return self.abilities(version).mtp is Mtp.LAST_CHUNK

    def _with_mtp_note(self, written: Written, plan: Plan, version: str) -> Written:
        if not plan.mtp_layers or self._counts_mtp(version):
            return written
        note = _n(
            "the last stage also has the layer of multi-token prediction, which is not counted",
            "the last stage also has the {count} layers of multi-token prediction, which are not counted",
            count=plan.mtp_layers,
        )
        return replace(written, notes=(*written.notes, note))

    def version_of(self, text: str, file: str) -> str:
        """Return the version whose syntax a text of the framework's configuration has; the newest where it is open."""
        return self.told_version(text, file) or self.versions[-1]

    def can_run(self, plan: Plan) -> bool:
        """Return whether the newest version can run `plan`."""
        return refusal(plan, self.abilities(self.versions[-1]), title=self.title) is None

    def version(self, asked: str | None) -> str:
        """Return the version to write for: the newest one up to `asked`, or the usual one.

        A version between two that have a syntax of their own has that of the older; raises InputError for one that is
        older than all.
        """
        if asked is None:
            return self.versions[-1]
        known = sorted((version for version in self.versions if _numbers(version) <= _numbers(asked)), key=_numbers)
        if not known or not _numbers(asked):
            first = min(self.versions, key=_numbers)
            raise InputError(
                value=asked,
                rule=_("must be a version of {title} from {first} on", title=self.title, first=first),
                place="--version-of",
                remedy=_("known are {versions}", versions=", ".join(sorted(self.versions, key=_numbers))),
            )
        return known[-1]


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version without zeros at the end: 0.3 is 0.3.0; empty for a text that is none."""
    pieces = version.split(".")
    if not all(piece.isdecimal() and len(piece) <= _MOST_DIGITS for piece in pieces):
        return ()
    numbers = list(map(int, pieces))
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
