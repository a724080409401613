"""The planning problem as arrays that all parts of the solver read."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import (
    ANY_CONTENT,
    FULL,
    NONE,
    Cells,
    HostLink,
    LayerBlocks,
    Network,
    Plan,
    Request,
    blocks_of,
    cells,
    check_cut,
    check_split,
    stage_cells,
    without_recompute,
)
from evenflow.schedule import Schedule, check_complete, make_schedule, order_lines
from evenflow.simulate import (
    BesidePairs,
    Graph,
    HalvesTable,
    Integers,
    LayerSums,
    Simulation,
    StageCosts,
    away_vectors,
    beside_pairs,
    build_graph,
    check_pairs,
    costs_of_counts,
    held_amounts,
    layer_sums,
    link_delays_ns,
    live_vectors,
    makespan_ns,
    message_table,
    network_of_units,
    plan_counts,
    simulate,
    with_copies,
)
from evenflow.solve.placement import Placement, placement_of


@dataclass(frozen=True, eq=False, kw_only=True)
class Problem:
    """A network to be cut over a fixed order of work, under a memory limit.

    Layers that stay together count as one layer (see `evenflow.model.blocks`), in all but plans and the request.
    """

    request: Request
    """The request of the caller, without a memory limit where the network has no memory."""
    network: Network
    """The network with the costs of one part of a split sequence, and blocks as layers."""
    schedule: Schedule
    graph: Graph
    sums: LayerSums
    live: tuple[NDArray[np.int64], ...]
    """Maximal live vectors of each rank (see `live_vectors`), that is, of microbatches in flight at once, for each of
    the bytes that are `held`.
    """
    beside: tuple[BesidePairs, ...] = ()
    """What is live on each rank beside its pairs of forward and backward; empty: there are none. Bounds leave it out.
    """
    blocks: LayerBlocks | None = None
    """The layers that stay together; None where none do."""
    placement: Placement | None = None
    """Which layers each cell may hold; None: any."""
    more_bytes: tuple[int, ...] = ()
    """What each rank may hold beyond the memory limit; empty: nothing."""
    pooled: Mapping[int, NDArray[np.int64]] = field(default_factory=dict)
    """For each rank of which another keeps what it moves, the maximal vectors of what is away (see `away_vectors`)."""

    @property
    def num_ranks(self) -> int:
        """Number of pipeline ranks."""
        return self.schedule.num_ranks

    @property
    def num_chunks(self) -> int:
        """Number of chunks per rank."""
        return self.schedule.num_chunks

    @property
    def num_cells(self) -> int:
        """Number of cells, which the solver counts along the network, in the order of their stages."""
        return self.schedule.num_stages

    @property
    def num_layers(self) -> int:
        """Number of body layers, or of blocks of them."""
        return self.network.num_layers

    @property
    def kinds(self) -> tuple[str, ...]:
        """Recompute kinds in cell order, ``none`` last."""
        return self.sums.kinds

    @property
    def min_layers(self) -> int:
        """The fewest layers of a cell."""
        return self.request.min_layers

    @property
    def memory_limit_bytes(self) -> int | None:
        """Memory that no rank may exceed; None: no limit."""
        return self.request.memory_limit_bytes

    @cached_property
    def message_ns(self) -> int:
        """Time of one transfer between ranks, the shortest one where they depend on the cut."""
        return self.request.message_ns

    @cached_property
    def border_times_ns(self) -> Integers | None:
        """Time of what a cell sends on that ends at each border, shape [num_layers + 1]; None where all are alike."""
        communication = self.request.communication
        times_ns = communication.border_times_ns(self.network) if communication else None
        return None if times_ns is None else np.array(times_ns, dtype=np.int64)

    @property
    def messages_depend(self) -> bool:
        """Whether a message may take longer than the shortest one: by the cut, or since it waits for its turn."""
        communication = self.request.communication
        waits = communication is not None and communication.one_at_a_time
        return waits or self.border_times_ns is not None

    @cached_property
    def shortest_messages(self) -> Integers:
        """Time that the input of every action travels at least, whatever the cut, in the order of the graph."""
        return self.graph.message_times(message_table(self.shortest_sent_ns))

    @cached_property
    def shortest_sent_ns(self) -> Integers:
        """Time of what every stage sends on at least, whatever the cut, shape [num_cells]."""
        return self._shortest_sent_ns if self.link_ns is None else self._shortest_sent_ns + self.link_ns

    @cached_property
    def link_ns(self) -> Integers | None:
        """What the messages behind every cell take longer on their link, [num_cells]; None: all links are alike."""
        return link_delays_ns(self.network, self.schedule.stage_table)

    @property
    def _shortest_sent_ns(self) -> Integers:
        times_ns = self.border_times_ns
        if times_ns is None:
            return np.full(self.num_cells, self.message_ns, dtype=np.int64)
        if self.fixed_bounds is not None:
            return np.asarray(times_ns[self.fixed_bounds[1:]])
        ends = np.arange(1, self.num_cells + 1) * self.min_layers
        spare = self.num_layers - self.num_cells * self.min_layers
        return np.array([times_ns[end : end + spare + 1].min() for end in ends])

    @cached_property
    def fixed_bounds(self) -> Integers | None:
        """First layer of each cell and the end of the last, shape [num_cells + 1], where the request fixes them."""
        if self.request.layers is None:
            return None
        of_stages = np.zeros(self.num_cells, dtype=np.int64)
        of_stages[self.schedule.stage_table] = self.request.layers
        if self.blocks is not None:
            in_blocks = self.blocks.of_layers(of_stages)
            assert in_blocks is not None, "checked by `problem_of_order`"
            of_stages = in_blocks
        return np.concatenate(([0], np.cumsum(of_stages)))

    @cached_property
    def families(self) -> tuple[tuple[int, ...], ...]:
        """Sets of kinds, by index: all kinds of a cell are in one of them."""
        return self.request.cell_rule.families(self.kinds)

    @property
    def counts_full(self) -> bool:
        """Whether the number of layers of a cell bounds those under `full`, the others being under `none`."""
        return self.request.cell_rule.full is not None and FULL in self.kinds

    def full_range(self, num_layers: int) -> tuple[int, int]:
        """Return the least and the most layers under `full` of a cell with `num_layers`, where they are bounded."""
        return self.request.cell_rule.full_range(num_layers)

    @property
    def host_link(self) -> HostLink | None:
        """The link to the host's memory; None where no kind moves anything there."""
        return self.network.used_host_link

    @property
    def copies_take_no_time(self) -> bool:
        """Whether something moves to the host's memory, and no copy takes any time."""
        return self.host_link is not None and self.host_link.takes_no_time

    @cached_property
    def copy_ns_per_byte(self) -> NDArray[np.float64]:
        """Time of a byte of each cell on the way to the host, or back; 0 where nothing moves there."""
        return np.array([self.network.copy_ns_per_byte(rank) for rank in self.schedule.stage_ranks])

    @property
    def held(self) -> tuple[str, ...]:
        """Names of the bytes of a stage that the entries of live vectors count, as in `StageCosts`."""
        waiting = ("until_weight_bytes",) if self.schedule.splits_backward else ()
        return ("activation_bytes", *waiting, *(("offloaded_bytes",) if self.host_link else ()))

    @property
    def num_working_rows(self) -> int:
        """Rows that a linear program needs for each live vector: one for each chunk where working memory counts."""
        ends = self.network.head, self.network.tail
        has_working = self.sums.has_working or bool(self.sums.segments) or any(block.working_bytes for block in ends)
        return self.num_chunks if has_working else 1

    @cached_property
    def limit(self) -> int:
        """The memory limit, or a number that nothing reaches."""
        return self.memory_limit_bytes if self.memory_limit_bytes is not None else np.iinfo(np.int64).max // 4

    @cached_property
    def constants(self) -> Integers:
        """Bytes that each rank holds whatever its layers, shape [num_ranks]."""
        reserved = [rank.reserved_bytes for rank in self.network.ranks] or [0] * self.num_ranks
        return self.network.constant_bytes + np.array(reserved, dtype=np.int64)

    @property
    def cell_speeds(self) -> list[float]:
        """Speed of the rank of each cell."""
        return [self.network.speed_of(rank) for rank in self.schedule.stage_ranks]

    def sums_at(self, speed: float) -> LayerSums:
        """Return the sums of the layers on a rank of this speed."""
        return self.sums if speed == 1 else self.sums.slower[speed][1]

    def network_at(self, speed: float) -> Network:
        """Return the network on a rank of this speed."""
        return self.network if speed == 1 else self.sums.slower[speed][0]

    def halves(self, speed: float) -> HalvesTable:
        """Return what layers save on a rank of this speed that run forward and backward beside each other."""
        return self.sums_at(speed).halves or HalvesTable.nothing(self.num_layers)

    @cached_property
    def pair_numbers(self) -> Integers:
        """How often a forward of each cell runs beside a backward of each chunk of its rank.

        Shape [num_cells, num_chunks].
        """
        schedule, numbers = self.schedule, np.zeros((self.num_cells, self.num_chunks), dtype=np.int64)
        forwards = schedule.paired
        np.add.at(numbers, (schedule.stages[forwards], schedule.stage_chunks[schedule.stages[forwards + 1]]), 1)
        return numbers

    def most_saved_ns(self, speed: float) -> Integers:
        """Return the most that the backwards of layers up to each border save beside forwards, [num_layers + 1].

        It is nothing where no forward runs beside a backward.
        """
        if not self.schedule.has_pairs:
            return np.zeros(self.num_layers + 1, dtype=np.int64)
        return self.halves(speed).most_saved_until_ns

    @cached_property
    def limits(self) -> Integers:
        """The most that each rank may hold, shape [num_ranks]."""
        return self.limit + np.array(self.more_bytes or (0,) * self.num_ranks, dtype=np.int64)

    def simulate(self, counts: Integers) -> Simulation:
        """Return the simulation of the plan with these counts [num_cells, num_kinds]."""
        return self.simulate_plan(self.plan(counts))

    def simulate_plan(self, plan: Plan) -> Simulation:
        """Return the simulation of a plan."""
        return simulate(self.request.network, plan, communication=self.request.communication)

    def costs(self, counts: Integers) -> StageCosts:
        """Return the costs of the stages with these counts [num_cells, num_kinds]."""
        return costs_of_counts(
            self.network, self.sums, counts, self.schedule.stage_table, has_pairs=self.schedule.has_pairs
        )

    def makespan_ns(self, costs: StageCosts) -> int:
        """Return the time of a step with these costs."""
        return makespan_ns(self.graph, costs.durations, costs.messages(self.request.communication))

    def rank_memory(self, costs: StageCosts) -> Integers:
        """Return the peak memory of each rank in bytes, shape [num_ranks]."""
        return np.array([self.rank_peak(costs, rank) for rank in range(self.num_ranks)], dtype=np.int64)

    def rank_peak(self, costs: StageCosts, rank: int) -> int:
        """Return the peak memory of one rank in bytes, with what it sets aside for others."""
        stages = self.schedule.stage_table[:, rank]
        amounts = held_amounts(costs, stages, splits_backward=self.schedule.splits_backward)
        held = int(costs.static_bytes[rank] + costs.working_bytes[rank] + (self.live[rank] @ amounts).max())
        if self.beside and costs.pair_bytes is not None and len(self.beside[rank].live):
            beside = self.beside[rank]
            together = costs.pair_bytes[stages[beside.forward_chunks], beside.backward_chunks]
            in_pairs = int((beside.live @ amounts + together).max())
            held = max(held, int(costs.static_bytes[rank] + costs.working_bytes[rank]) + in_pairs)
        for other, vectors in self.pooled.items():
            if self.keeper_of(other) == rank and costs.offloaded_bytes is not None:
                held += int((vectors @ costs.offloaded_bytes[self.schedule.stage_table[:, other]]).max())
        return held

    def keeper_of(self, rank: int) -> int | None:
        """Return the rank in whose memory waits what `rank` moves; None: nothing does."""
        return None if self.host_link is None else self.host_link.keeper_of(rank)

    @property
    def keepers(self) -> tuple[int, ...]:
        """The ranks that set something aside for others, within a limit that depends on what those move."""
        if self.memory_limit_bytes is None:
            return ()
        return tuple(sorted({keeper for rank in self.pooled if (keeper := self.keeper_of(rank)) is not None}))

    def keeper_peak(self, costs: StageCosts, rank: int) -> int:
        """Return the peak memory of the keeper of a rank; 0 where it has none."""
        keeper = self.keeper_of(rank)
        return 0 if keeper is None else self.rank_peak(costs, keeper)

    def may_hold(self, content: Integers) -> bool:
        """Return whether the kinds of these counts [num_kinds] may share a cell."""
        used = set(np.flatnonzero(content).tolist())
        if not any(used <= set(family) for family in self.families):
            return False
        if not self.counts_full:
            return True
        least, most = self.full_range(int(content.sum()))
        return least <= int(content[self.kinds.index(FULL)]) <= most

    @cached_property
    def _own_order(self) -> tuple[str, ...]:
        """The lines of an order that its name does not say."""
        return order_lines(self.schedule)

    def counts(self, plan: Plan) -> Integers:
        """Return the counts of a plan, shape [num_cells, num_kinds]; the inverse of `plan`.

        Raises InputError where its cuts, or changes of kind in a cell, part layers that stay together.
        """
        counts = plan_counts(plan, self.kinds, self.schedule.stage_table)
        if self.blocks is None:
            return counts
        check_cut(self.request.network, plan.layers, self.schedule.stage_table)
        in_blocks = self.blocks.of_layers(counts)
        if in_blocks is None:
            raise InputError(
                value=", ".join(plan.used_kinds),
                rule=_("must be the same for layers that stay in one stage"),
                place="recompute",
            )
        return in_blocks

    @property
    def _delays_weights(self) -> bool:
        """Whether weight gradients of experts come behind what an exchange waits for."""
        return self.request.network.delays_weights and self.schedule.has_pairs

    def plan(self, counts: Integers) -> Plan:
        """Return the plan with these counts [num_cells, num_kinds]."""
        if self.blocks is not None:
            counts = self.blocks.in_layers(counts)
        table = counts[self.schedule.stage_table]
        recompute = {kind: cells(table[:, :, index].tolist()) for index, kind in enumerate(self.kinds) if kind != NONE}
        return Plan(
            schedule=self.schedule.name,
            order=self._own_order,
            num_microbatches=self.schedule.num_microbatches,
            sequence_splits=self.schedule.sequence_splits,
            group_size=self.schedule.group_size,
            layers=cells(table.sum(axis=2).tolist()),
            recompute=recompute,
            mtp_layers=self.request.network.mtp_layers,
            encoder_layers=self.request.network.encoder_layers,
            encodes_apart=self.request.network.encodes_apart,
            continuing_layers=self.request.network.continuing_layers,
            delays_weights=None if self.request.releases_attention or not self._delays_weights else True,
            releases_attention=self.request.releases_attention and self.schedule.has_pairs,
        )


def _joined_at(network: Network, speed: float) -> Network:
    """Return a network on a rank of this speed, with blocks as layers."""
    slow = network.at_speed(speed)
    blocks = blocks_of(slow)
    return slow if blocks is None else blocks.network


def without_copies(problem: Problem) -> Problem:
    """Return the same problem without copies in its graph, though they take their time; itself where it has none."""
    return problem if problem.graph.copied is None else replace(problem, graph=problem.graph.of_actions)


def without_copy_time(problem: Problem) -> Problem:
    """Return the same problem where copies to the host take no time: it has all plans, and none takes longer."""
    assert problem.host_link is not None, "nothing moves"
    link = replace(problem.host_link, takes_no_time=True, keepers=(), keeper_bytes_per_s=None)
    return replace(
        problem,
        request=replace(problem.request, network=replace(problem.request.network, host_link=link)),
        network=replace(problem.network, host_link=link),
        graph=problem.graph.of_actions,
        pooled={},
    )


def make_problem(request: Request, *, schedule: str) -> Problem:
    """Return the problem under the order of the family `schedule`; raises InputError."""
    return problem_of_order(request, make_schedule(schedule, **asdict(request.sizes), group_size=request.group_size))


def _check_empty(request: Request, layers: Cells, order: Schedule) -> None:
    """Raise InputError for decided `layers` with a cell that is empty and may not be."""
    if not request.only_ends_empty:
        return
    for chunk, rank in stage_cells(order.stage_table)[1:-1]:
        if layers[chunk][rank] == 0:
            raise InputError(
                value=0,
                rule=_("must be at least one layer: only the first and the last stage may be empty"),
                place=_("chunk {chunk}, rank {rank}", chunk=chunk, rank=rank),
                remedy=_("move the cut"),
            )


def problem_of_order(
    request: Request,
    order: Schedule,
    *,
    graph: Graph | None = None,
    live: tuple[NDArray[np.int64], ...] = (),
) -> Problem:
    """Return the problem under `order`, which must have the sizes of the request; raises InputError.

    `graph` and `live` are those of the order, where the caller has them: then it is complete.
    """
    if graph is None:
        check_complete(order)
    if order.sizes != request.sizes:
        raise InputError(
            value=order.sizes,
            rule=_("must have the sizes asked for, {sizes}", sizes=request.sizes),
            place=_("the order"),
        )
    network = request.network
    check_pairs(order, network, request.communication)
    # Blocks are sums of what their layers cost on the rank, each rounded by itself as in the simulation.
    units = network_of_units(network.releasing_attention() if request.releases_attention else network, order)
    blocks = blocks_of(units)
    whole = units if blocks is None else blocks.network
    if not request.allow_empty and whole.num_layers < order.num_stages:
        raise InputError(
            value=whole.num_layers,
            rule=_(
                "must be at least {num_stages}, one for each of {num_ranks} ranks x {num_chunks} chunks",
                num_stages=order.num_stages,
                num_ranks=order.num_ranks,
                num_chunks=order.num_chunks,
            ),
            place=_("body layers of {name}", name=network.name)
            if blocks is None
            else _("blocks of body layers of {name} that stay together", name=network.name),
            remedy=_("use fewer ranks or chunks"),
        )
    if not network.has_memory:
        request = replace(request, memory_limit_bytes=None)
    if request.layers is not None:
        layers = cells(request.layers)
        request = replace(request, layers=layers)
        check_split(
            layers,
            num_layers=network.num_layers,
            num_ranks=order.num_ranks,
            num_chunks=order.num_chunks,
            min_layers=request.min_layers,
        )
        check_cut(network, layers, order.stage_table)
        _check_empty(request, layers, order)
    placement = placement_of(
        whole, order.stage_table, min_layers=request.min_layers, only_ends_empty=request.only_ends_empty
    )
    host_link = whole.used_host_link
    graph = build_graph(order) if graph is None else graph
    return Problem(
        request=request,
        network=whole,
        schedule=order,
        graph=graph if host_link is None else with_copies(graph, host_link),
        sums=layer_sums(whole, slower={speed: _joined_at(units, speed) for speed in units.speeds if speed != 1}),
        live=live
        if live and host_link is None
        else tuple(live_vectors(order, rank, host_link=host_link) for rank in range(order.num_ranks)),
        beside=tuple(beside_pairs(order, rank) for rank in range(order.num_ranks)) if order.has_pairs else (),
        blocks=blocks,
        placement=placement,
        pooled={}
        if host_link is None or order.is_forward_only
        else {
            rank: away_vectors(order, host_link, rank)
            for rank, keeper in enumerate(host_link.keepers)
            if keeper is not None
        },
    )


def without_limit(problem: Problem) -> Problem:
    """Return the same problem where nothing is recomputed or moved and everything fits: no plan takes longer there."""
    request = replace(
        problem.request,
        network=without_recompute(problem.request.network),
        memory_limit_bytes=None,
        cell_rule=ANY_CONTENT,
    )
    return problem_of_order(request, problem.schedule, graph=problem.graph.of_actions)
