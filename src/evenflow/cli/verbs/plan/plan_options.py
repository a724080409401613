"""The options of ``evenflow plan``."""

from dataclasses import dataclass, field, replace
from enum import Enum, auto
from pathlib import Path

from evenflow import ranges
from evenflow.asking import asked, asked_as, optional
from evenflow.cli.shared import options
from evenflow.cli.shared.host_options import HostOptions
from evenflow.cli.shared.layers_per_rank import KEPT_LAYERS
from evenflow.cli.shared.memory_margin import CONFIDENCE
from evenflow.cli.shared.message_options import MessageOptions
from evenflow.cli.shared.options import BEST, EVERY, SEARCH
from evenflow.cli.shared.rank_options import RankOptions
from evenflow.cli.shared.result_files import ResultFiles
from evenflow.cli.shared.segment_options import SegmentOptions
from evenflow.cli.shared.targets.target_options import VERSION, TargetName
from evenflow.cli.shared.training.configuration_options import ConfigurationOptions
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import WHOLE, CellRule, mixing, segment_kind
from evenflow.questions import NUM_CHUNKS, NUM_MICROBATCHES, NUM_RANKS, NUM_SEQUENCE_SPLITS, PLACED_RANKS, SEARCH_TIME
from evenflow.schedule import family_name
from evenflow.targets.target import Target


class Task(Enum):
    """The choice that is left free beside the cut and the recomputation."""

    ONE_SCHEDULE = auto()
    BEST_SCHEDULE = auto()
    ANY_ORDER = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """What ``evenflow plan`` is asked for: an option for each field."""

    layers: str
    ranks: int = field(
        metadata=asked_as(NUM_RANKS, is_optional=True, help="Pipeline ranks.  [default: those of a plan file]")
    )
    microbatches: int = field(
        metadata=asked_as(
            NUM_MICROBATCHES, is_optional=True, help="Microbatches of one step.  [default: those of a plan file]"
        )
    )
    chunks: int | None = field(default=None, metadata=NUM_CHUNKS)
    memory: str | None = field(default=None, metadata=options.MEMORY_TEXT)
    confidence: float | None = optional(
        CONFIDENCE,
        ranges.CONFIDENCE,
        metavar="P",
        help="Probability with which the plan must fit in --memory, where the memory of layers was fitted to measured "
        "peaks.  [default: the standard error of a peak is left free]",
    )
    schedule: str | None = optional(
        "--schedule",
        metavar="NAME",
        help="One of `evenflow schedules`, such as zb-h1; best to try them all, with --chunks or with 1 to 4 "
        "chunks; or search to look for the order of work as well.  [default: 1f1b, or interleaved for several "
        "chunks]",
    )
    gpipe: bool = optional(
        "--gpipe",
        default=False,
        help="Plan GPipe: all forwards, then all backwards, and of every stage only the input is kept, all else is "
        "computed again.",
    )
    split_backward: bool = optional(
        "--split-backward",
        default=False,
        help=f"With --schedule {SEARCH}: split backwards into input and weight gradients where that helps.",
    )
    less_memory: bool = field(default=False, metadata=options.SHORTEST_WARM_UP)
    group_size: int | str | None = field(default=None, metadata=options.GROUP_OF)
    sequence_splits: int = field(default=1, metadata=NUM_SEQUENCE_SPLITS)
    time_limit: float = field(default=60.0, metadata=SEARCH_TIME)
    mix: str = optional(
        "--mix",
        default="mindformers",
        choices=("mindformers", "any"),
        shows_default=True,
        help="Recompute kinds that may share a cell: those that MindFormers can express, or any.",
    )
    allow_empty: bool | None = field(default=None, metadata=options.ALLOWS_EMPTY)
    layers_per_rank: tuple[str, ...] = field(default=(), metadata=KEPT_LAYERS)
    unequal_ranks: RankOptions = field(metadata=asked(group=RankOptions))
    place_ranks: int | None = field(default=None, metadata=PLACED_RANKS)
    alternatives: int | None = optional(
        "--alternatives",
        ranges.ALTERNATIVES,
        metavar="N",
        help="Also show up to N plans at most 1 % longer, those that leave most memory free. A quarter of the time "
        "limit is kept for them.",
    )
    segments: SegmentOptions = field(metadata=asked(group=SegmentOptions))
    host: HostOptions = field(metadata=asked(group=HostOptions))
    messages: MessageOptions = field(metadata=asked(group=MessageOptions))
    results: ResultFiles = field(metadata=asked(group=ResultFiles))
    order_file: Path | None = optional(
        "--order",
        is_written=True,
        metavar="FILE.csv",
        help="Write the order of work as the CSV that torch.distributed.pipelining reads.",
    )
    certificate_file: Path | None = optional(
        "--certificate",
        is_written=True,
        metavar="FILE.json",
        help="Write plan, bound and evidence, which evenflow verify checks without the solver. Half of the time limit "
        "is kept for it, and for the check of what is written, which may take a minute more.",
    )
    applied_file: Path | None = optional(
        "--apply", help="Write FILE.planned beside this configuration or script of your framework, with the plan."
    )
    target: Target | None = optional(
        "--target",
        kind=TargetName(),
        metavar="NAME",
        help="Plan only what this framework can run, and print the plan for it.  [default: any order and cut; no "
        "framework's lines are printed]",
    )
    asked_version: str | None = field(default=None, metadata=VERSION)
    overwrite: bool = field(default=False, metadata=options.OVERWRITES)
    quiet: bool = optional(
        "--quiet", default=False, help="Print only the block to paste, for MindFormers unless --target names another."
    )
    configuration: ConfigurationOptions = field(metadata=asked(group=ConfigurationOptions))

    @property
    def rule(self) -> CellRule:
        """Which kinds may share a cell."""
        return CellRule(kinds=(segment_kind(WHOLE),)) if self.gpipe else mixing(self.mix == "any")

    def with_gpipe(self) -> "PlanOptions":
        """Return the same, with the schedule and the segments of ``--gpipe`` where that is given.

        Raises:
            InputError: an option beside it that says another schedule or recomputation.
        """
        if not self.gpipe:
            return self
        others = {
            "--schedule": self.schedule is not None,
            "--recompute-segments": self.segments.recompute_segments is not None,
            "--offload": self.host.offload,
            "--target": self.target is not None,
            "--apply": self.applied_file is not None,
            "--mix": self.mix == "any",
        }
        for option, is_given in others.items():
            if is_given:
                rule = _("must not be given beside --gpipe, which decides that")
                raise InputError(rule=rule, place=option, remedy=_("leave one of the two out"))
        segments = SegmentOptions(recompute_segments=(WHOLE,))
        return replace(self, schedule="gpipe", segments=segments)

    @property
    def task(self) -> Task:
        """The task of ``--schedule`` and ``--target``; raises InputError for options that do not go with it."""
        name = "" if self.schedule is None else family_name(self.schedule, also=(BEST, SEARCH))
        if self.target is not None:
            self._check_beside_target(self.target)
        if self.split_backward and name != SEARCH:
            raise InputError(
                rule=_(
                    "must come with --schedule {search}: only a search decides which backwards to split", search=SEARCH
                ),
                place="--split-backward",
                remedy=_("add --schedule {search}", search=SEARCH),
            )
        if name in (BEST, SEARCH) and self.less_memory:
            raise InputError(
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
        if self.place_ranks is not None and name == SEARCH:
            raise InputError(
                value=self.place_ranks,
                rule=_("must not be given beside --schedule {search}", search=SEARCH),
                place="--place-ranks",
                remedy=_("place the ranks with --schedule {best} first", best=BEST),
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
                rule=_(
                    "must not be given beside --schedule {search}: MindFormers runs only the orders it knows",
                    search=SEARCH,
                ),
                place="--apply",
                remedy=_("leave one of the two out"),
            )

    def _check_beside_target(self, target: Target) -> None:
        """Refuse options whose values follow from the target."""
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
                remedy=_("leave it out: promising sizes are tried"),
            )
