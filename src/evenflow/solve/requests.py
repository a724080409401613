"""What each way of planning is asked for: a class of fields, which are the keywords of its function."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evenflow.asking import check_fields
from evenflow.model import Cells, Communication, HostLink, NetworkSource, Plan, Request, Sizes, as_network, mixing
from evenflow.questions import (
    MEMORY_LIMIT,
    NUM_CHUNKS,
    NUM_MICROBATCHES,
    NUM_RANKS,
    NUM_SEQUENCE_SPLITS,
    PLACED_RANKS,
    TIME_LIMIT,
)
from evenflow.solve.group_choice import GroupSizes
from evenflow.solve.outcome import ProgressCallback


@dataclass(frozen=True, kw_only=True)
class Search:
    """How long a search may take, and who hears of its progress."""

    time_limit_s: float = field(default=60.0, metadata=TIME_LIMIT)
    progress: ProgressCallback | None = None
    """Called from the calling thread a few times a second."""


@dataclass(frozen=True, kw_only=True)
class ContestSearch(Search):
    """A search over several schedules, numbers of chunks and group sizes."""

    num_chunks: Sequence[int] = ()
    """Numbers of chunks that are tried; none: 1 to 4 while the layers suffice."""
    layers: Mapping[int, Cells] | None = None
    """Layers of every cell ``[chunk][rank]`` that the caller has decided, by number of chunks."""
    group_sizes: GroupSizes = "promising"
    """Group sizes of interleaved schedules that are tried."""
    place_ranks: int | None = field(default=None, metadata=PLACED_RANKS)
    """Ranks in a row that stand together, where those that differ are tried in every order; None: as they are."""
    host_links: Sequence[HostLink] = ()
    """Links to the host that are tried, which differ in when they fetch; none: that of the network."""
    fetches_by_cell: bool = False
    """Whether fetches may be ahead by another number of actions in each cell, where that makes a shorter plan."""
    known: Sequence[Plan] = ()
    """Plans that are known: the answer is not longer than those of them that it could be."""


@dataclass(frozen=True, kw_only=True)
class PipelineRequest(Search):
    """What every planner is asked for: a network, the sizes of its pipeline, and limits."""

    network: NetworkSource = field(kw_only=False)
    """The network, or the path of its layer file."""
    num_ranks: int = field(metadata=NUM_RANKS)
    num_microbatches: int = field(metadata=NUM_MICROBATCHES)
    sequence_splits: int = field(default=1, metadata=NUM_SEQUENCE_SPLITS)
    memory_limit_bytes: int | None = field(default=None, metadata=MEMORY_LIMIT)
    allow_empty: bool = True
    communication: Communication | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def problem(
        self, *, num_chunks: int = 1, mix_any: bool = False, group_size: int | None = None, layers: Cells | None = None
    ) -> Request:
        """Return what is to be solved, for one number of chunks."""
        sizes = Sizes(
            num_ranks=self.num_ranks,
            num_chunks=num_chunks,
            num_microbatches=self.num_microbatches,
            sequence_splits=self.sequence_splits,
        )
        return Request(
            network=as_network(self.network),
            sizes=sizes,
            memory_limit_bytes=self.memory_limit_bytes,
            cell_rule=mixing(mix_any),
            allow_empty=self.allow_empty,
            group_size=group_size,
            communication=self.communication,
            layers=layers,
        )


@dataclass(frozen=True, kw_only=True)
class PlanRequest(PipelineRequest):
    """What `evenflow.plan` is asked for."""

    num_chunks: int = field(default=1, metadata=NUM_CHUNKS)
    schedule: str | None = None
    less_memory: bool = False
    group_size: int | None = None
    mix_any: bool = False
    layers: Cells | None = None
    known: Sequence[Plan] = ()
    """Plans that are known: the answer is not longer than those of them that it could be."""


@dataclass(frozen=True, kw_only=True)
class AnyOrderRequest(PipelineRequest):
    """What `evenflow.plan_any_order` is asked for."""

    num_chunks: int = field(default=1, metadata=NUM_CHUNKS)
    split_backward: bool = False
    mix_any: bool = False
    layers: Cells | None = None
    known: Sequence[Plan] = ()
    """Plans that are known, also in orders of their own: the answer is not longer than those that it could be."""


@dataclass(frozen=True, kw_only=True)
class BestRequest(PipelineRequest, ContestSearch):
    """What `evenflow.plan_best` is asked for."""

    families: Sequence[str] = ()
    mix_any: bool = False


@dataclass(frozen=True, kw_only=True)
class TargetRequest(PipelineRequest, ContestSearch):
    """What `evenflow.plan_for_target` is asked for."""

    target: str = field(kw_only=False)
    version: str | None = None
    schedules: Sequence[str] = ()
