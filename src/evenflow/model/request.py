"""The request to a planner: a network to be cut over a pipeline, under limits."""

from dataclasses import dataclass, field

from evenflow.asking import check_fields
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model.cell_rule import SELECT_OR_COMM, CellRule
from evenflow.model.communication import Communication
from evenflow.model.network import Network
from evenflow.model.plan import Cells
from evenflow.model.sizes import Sizes
from evenflow.questions import MEMORY_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A network to be cut over a pipeline of these sizes, and the limits of its plans."""

    network: Network
    sizes: Sizes
    memory_limit_bytes: int | None = field(default=None, metadata=MEMORY_LIMIT)
    """Bytes that no rank may exceed; None: no limit."""
    cell_rule: CellRule = SELECT_OR_COMM
    """What layers of one cell may be under; unless given, what MindFormers can express."""
    allow_empty: bool = True
    """Whether cells may hold no layer, where a framework that is planned for runs such cells."""
    only_ends_empty: bool = False
    """Whether of the cells that may hold none only the first and the last along the network do."""
    group_size: int | None = None
    """Microbatches of a group in an interleaved schedule; None: as many as fill the pipeline."""
    communication: Communication | None = None
    """Cost of one transfer between ranks; None: transfers take no time."""
    layers: Cells | None = None
    """Number of layers of every cell ``[chunk][rank]`` that the caller has decided, which leaves only recomputation to
    plan; None: the planner decides both.
    """

    releases_attention: bool = False
    """Whether attention goes backward as early as it can beside a forward (see `Halves.releasing`)."""

    def __post_init__(self) -> None:
        check_fields(self)
        check_step(self.network, self.sizes, self.communication)

    @property
    def min_layers(self) -> int:
        """Fewest layers that a cell may hold."""
        return 0 if self.allow_empty else 1

    @property
    def full_cells(self) -> bool:
        """Whether plans with empty cells are left out, of which there are some."""
        return not self.allow_empty and self.sizes.num_cells > 1

    @property
    def kept_apart(self) -> tuple[str, str] | None:
        """Two recompute kinds of the network that no cell may mix although simulation and runtime could; None: none."""
        return next((pair for pair in self.cell_rule.apart if set(pair) <= set(self.network.kinds)), None)

    @property
    def message_ns(self) -> int:
        """Time of one transfer between ranks; where the network says what its layers send on, the shortest one."""
        if self.communication is None:
            return 0
        times_ns = self.communication.border_times_ns(self.network.split_sequence(self.sizes.sequence_splits))
        if times_ns is None or self.sizes.num_cells == 1:
            return self.communication.message_ns
        # Unless cells may be empty, none ends before the first layer, and only the last one behind the last.
        return min(times_ns if self.allow_empty else times_ns[1:-1], default=self.communication.message_ns)


def check_step(network: Network, sizes: Sizes, communication: Communication | None) -> None:
    """Raise InputError for a step that is more work or memory than 64 bits can add up, whatever the order of work.

    So is a network that knows other ranks than the pipeline has, keepers of others, or other cells.
    """
    link = network.host_link
    if link is not None and link.keepers and len(link.keepers) != sizes.num_ranks:
        raise InputError(
            value=len(link.keepers),
            rule=_("must be as many as there are ranks, {num_ranks}", num_ranks=sizes.num_ranks),
            place=_("{name}, the keepers of what ranks move", name=network.name),
        )
    rows = () if link is None else link.cell_ahead
    if rows and (len(rows) not in (1, sizes.num_chunks) or any(len(row) != sizes.num_ranks for row in rows)):
        raise InputError(
            value=[list(row) for row in rows],
            rule=_(
                "must have one row, or one for each of {num_chunks} chunks, with a number for each of the "
                "{num_ranks} ranks",
                num_chunks=sizes.num_chunks,
                num_ranks=sizes.num_ranks,
            ),
            place=_("{name}, the actions by which a fetch is ahead", name=network.name),
        )
    if network.ranks and len(network.ranks) != sizes.num_ranks:
        raise InputError(
            value=len(network.ranks),
            rule=_("must be as many as there are ranks, {num_ranks}", num_ranks=sizes.num_ranks),
            place=_("{name}, the ranks whose speed and memory it says", name=network.name),
        )
    longest_ns = 0
    if communication is not None:
        longest_ns = max(communication.border_times_ns(network) or (), default=communication.message_ns)
    longest_ns += network.longest_link_ns
    network.check_step(sizes.num_units, messages_ns=2 * sizes.num_cells * sizes.num_units * longest_ns)
