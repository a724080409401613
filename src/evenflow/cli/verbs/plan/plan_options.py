"""The options of ``evenflow plan``."""

from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from evenflow.cli.shared.message_options import MessageOptions
from evenflow.cli.shared.options import BEST, EVERY, SEARCH
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.schedule import family_name
from evenflow.targets.target import Target


class Task(Enum):
    """The choice that is left free beside the cut and the recomputation."""

    ONE_SCHEDULE = auto()
    BEST_SCHEDULE = auto()
    ANY_ORDER = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """The command line, as click passes it."""

    layers: str
    ranks: int
    microbatches: int
    chunks: int | None
    memory: str | None
    schedule: str | None
    split_backward: bool
    less_memory: bool
    group_size: int | str | None
    sequence_splits: int
    time_limit: float
    mix: str
    allow_empty: bool
    layers_per_rank: tuple[str, ...]
    messages: MessageOptions
    json_file: Path | None
    svg_file: Path | None
    html_file: Path | None
    trace_file: Path | None
    order_file: Path | None
    applied_file: Path | None
    target: Target | None
    asked_version: str | None
    overwrite: bool
    quiet: bool

    @property
    def task(self) -> Task:
        """The task of ``--schedule`` and ``--target``; raises InputError for options that do not go with it."""
        name = "" if self.schedule is None else family_name(self.schedule, also=(BEST, SEARCH))
        if self.target is not None:
            self._check_beside_target(self.target)
        if self.split_backward and name != SEARCH:
            raise InputError(
                value=None,
                rule=_(
                    "must come with --schedule {search}: only a search decides which backwards to split", search=SEARCH
                ),
                place="--split-backward",
                remedy=_("add --schedule {search}", search=SEARCH),
            )
        if name in (BEST, SEARCH) and self.less_memory:
            raise InputError(
                value=None,
                rule=_("must not be given beside --schedule {name}, because it names one schedule", name=name),
                place="--less-memory",
                remedy=_("leave it out"),
            )
        if self.group_size is not None and name in ((SEARCH,) if self.group_size == EVERY else (BEST, SEARCH)):
            raise InputError(
                value=self.group_size,
                rule=_("must not be given beside --schedule {name}, which chooses the schedule", name=name),
                place="--group-size",
                remedy=_("leave it out, or try every size with --group-size {every}", every=EVERY)
                if name == BEST
                else _("leave it out"),
            )
        unnamed = Task.ONE_SCHEDULE if self.target is None or self.less_memory else Task.BEST_SCHEDULE
        return {"": unnamed, BEST: Task.BEST_SCHEDULE, SEARCH: Task.ANY_ORDER}.get(name, Task.ONE_SCHEDULE)

    def check_beside_training_yaml(self) -> None:
        """Refuse what does not go with a MindFormers training YAML."""
        name = "" if self.schedule is None else family_name(self.schedule, also=(BEST, SEARCH))
        if self.group_size == EVERY:
            raise InputError(
                value=EVERY,
                rule=_("must not be given beside --apply: MindFormers runs groups of one size only"),
                place="--group-size",
                remedy=_("leave one of the two out"),
            )
        if name == SEARCH:
            raise InputError(
                value=None,
                rule=_(
                    "must not be given beside --schedule {search}: MindFormers runs only the orders it knows",
                    search=SEARCH,
                ),
                place="--apply",
                remedy=_("leave one of the two out"),
            )

    def _check_beside_target(self, target: Target) -> None:
        """Refuse what the target decides."""
        if self.mix != "mindformers":
            raise InputError(
                value=self.mix,
                rule=_("must not be given for {title}, which decides what may share a cell", title=target.title),
                place="--mix",
                remedy=_("leave it out"),
            )
        if isinstance(self.group_size, int):
            raise InputError(
                value=self.group_size,
                rule=_("must be {every} for {title}, or not be given", every=EVERY, title=target.title),
                place="--group-size",
                remedy=_("leave it out: sizes that the framework can run are tried"),
            )
