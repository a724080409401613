"""The one cost model: times and memory of a plan's stages, linear in the layer counts per recompute kind.

Solver, simulator, pictures and exports all take their numbers from the prefix sums here. One number is no sum: a rank
runs one action at a time, so of the working memory of its layers the largest counts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import FULL, NONE, Communication, HostLink, Layer, MovedShare, Network, Plan, check_cut, saved_ns
from evenflow.schedule import NUM_OPS, Op, Schedule
from evenflow.simulate.compiled import pays_for
from evenflow.simulate.first_moved import FirstMoved, first_moved
from evenflow.simulate.kernels import held_beside, saved_beside
from evenflow.simulate.timeline import InTurn, Messages

Integers = NDArray[np.int64]
_PAIR_ACTIONS = 50
"""Actions that take as long in a loop as one pair of stages, which goes layer by layer."""
_UNKNOWN = -1
"""The size of a message of which the network does not say it."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LayerSums:
    """Prefix sums over the body layers: a run of layers [i, j) costs ``sums[j] - sums[i]``."""

    kinds: tuple[str, ...]
    """Recompute kinds in cell order, ``none`` last."""
    forward_ns: Integers
    """Times of forwards, shape [num_layers + 1]."""
    parameter_bytes: Integers
    """Bytes of weights, gradients and optimizer state, shape [num_layers + 1]."""
    weight_ns: Integers
    """Times of weight gradients, shape [num_layers + 1]."""
    until_weight_bytes: Integers
    """Bytes held for weight gradients, shape [num_layers + 1]."""
    backward_ns: Integers
    """Times of backwards with recomputation and weight gradients, shape [num_kinds, num_layers + 1]."""
    activation_bytes: Integers
    """Bytes of activations, shape [num_kinds, num_layers + 1]."""
    working_bytes: Integers
    """Bytes that a layer's actions need for themselves, shape [num_kinds, num_layers]; no sums: the largest counts."""
    offloaded_bytes: Integers | None = None
    """Bytes that the host keeps, shape [num_kinds, num_layers + 1]; None: nothing is moved there."""
    segments: Mapping[int, "SegmentRuns"] = field(default_factory=dict)
    """What runs of layers keep and need under each kind of segments, by index; no sums: these say the least of each."""
    halves: "HalvesTable | None" = None
    """What forwards save beside backwards; None: nothing."""
    mlp_bytes: Integers
    """The part of activations that the MLP keeps, shape [num_kinds, num_layers]; no sums."""
    releases_attention: bool = False
    """Whether attention goes backward as early as it can beside a forward."""
    recomputes_first: bool = False
    """Whether a backward beside a forward begins with all that it computes again."""
    boundary_bytes: Integers | None = None
    """Bytes sent on where a stage ends at each border, shape [num_layers + 1]; no sums. -1: the network does not say.

    None: it says none.
    """
    slower: Mapping[float, tuple[Network, "LayerSums"]] = field(default_factory=dict)
    """The network on ranks of each other speed than 1, and its sums."""

    @cached_property
    def pair_tables(self) -> tuple[Integers, Integers, Integers, Integers]:
        """What `held_beside` takes of layers: prefix sums of what they keep and the part of their MLP, twice.

        The second time it is what backwards begin with: where all is computed again first, what is kept under ``none``.
        """
        own = self.activation_bytes, self.mlp_bytes
        if not self.recomputes_first:
            return (*own, *own)
        plain = [np.repeat(table[-1:], len(table), axis=0) for table in own]
        return (*own, plain[0], plain[1])

    @cached_property
    def has_working(self) -> bool:
        """Whether any layer needs working memory."""
        return bool(self.working_bytes.any())

    @cached_property
    def working_table(self) -> Integers:
        """Largest working bytes of the 2**level layers from each one on, shape [num_levels, num_kinds, num_layers].

        There are no levels where no layer needs any.
        """
        levels = [self.working_bytes] if self.has_working else []
        while levels and 2 ** len(levels) <= self.working_bytes.shape[1]:
            below, reach = levels[-1], 2 ** (len(levels) - 1)
            levels.append(np.concatenate((np.maximum(below[:, :-reach], below[:, reach:]), below[:, -reach:]), axis=1))
        return np.array(levels, dtype=np.int64).reshape(-1, *self.working_bytes.shape)

    def largest_working(self, starts: Integers, ends: Integers) -> Integers:
        """Return the largest working bytes of stages whose layers of each kind are [starts, ends).

        Both have the shape [num_stages, num_kinds], the result [num_stages].
        """
        if not self.has_working and not self.segments:
            return np.zeros(len(starts), dtype=np.int64)
        needed: Integers = self._largest_of_layers(starts, ends) if self.has_working else np.zeros_like(starts)
        for kind, runs in self.segments.items():
            needed[:, kind] = runs.working_bytes[starts[:, kind], ends[:, kind]]
        return np.asarray(needed.max(axis=1))

    def _largest_of_layers(self, starts: Integers, ends: Integers) -> Integers:
        """Return the largest working bytes of a layer of stages under each kind, shape [num_stages, num_kinds]."""
        sizes = ends - starts
        level = np.frexp(np.maximum(sizes, 1))[1] - 1
        every_kind = np.arange(len(self.kinds))
        # Two spans of a power of two cover the layers; an empty span reads any place and counts for nothing.
        first = self.working_table[level, every_kind, np.where(sizes, starts, 0)]
        second = self.working_table[level, every_kind, np.where(sizes, ends - 2**level, 0)]
        return np.where(sizes, np.maximum(first, second), 0)


@dataclass(frozen=True, eq=False, kw_only=True)
class HalvesTable:
    """What layers save that run forward and backward beside each other (see `saved_ns`)."""

    types: Integers
    """Type of every layer, the number of its run, shape [num_layers]."""
    saved_ns: Integers
    """Time that a forward of one type saves beside a backward of another, shape [num_types, num_types]."""

    @classmethod
    def nothing(cls, num_layers: int) -> "HalvesTable":
        """Return the table of layers that save nothing."""
        return cls(types=np.zeros(num_layers, dtype=np.int64), saved_ns=np.zeros((1, 1), dtype=np.int64))

    @property
    def most_saved_ns(self) -> Integers:
        """The most that a backward of each layer saves beside any forward, shape [num_layers]."""
        return np.asarray(self.saved_ns.max(axis=0)[self.types])

    @cached_property
    def most_saved_until_ns(self) -> Integers:
        """Prefix sums of these, shape [num_layers + 1]."""
        return np.concatenate(([0], np.cumsum(self.most_saved_ns)))


def halves_table(network: Network) -> HalvesTable | None:
    """Return what layers save in pairs; None where no halves are known."""
    of_runs = [(run.layer.halves, run.layer.forward_ns, run.layer.backward_ns) for run in network.runs]
    known = list(dict.fromkeys(of_runs))
    saved = np.zeros((len(known), len(known)), dtype=np.int64)
    for first, (forward, forward_ns, _backward_ns) in enumerate(known):
        for second, (backward, _forward_ns, backward_ns) in enumerate(known):
            if forward is not None and backward is not None:
                saved[first, second] = saved_ns(
                    forward.forward, forward_ns, backward.backward, backward_ns, slowdown=network.pair_slowdown
                )
    if all(halves is None for halves, *_times in of_runs):
        return None
    types = np.repeat(np.arange(len(of_runs)), [run.count for run in network.runs])
    of_run = [known.index(own) for own in of_runs]
    return HalvesTable(types=types, saved_ns=saved[np.ix_(of_run, of_run)])


def pair_saved_ns(table: HalvesTable, starts: Integers, ends: Integers) -> Integers:
    """Return what the forward of each stage of a rank saves beside the backward of each, [num_chunks, num_chunks].

    `starts` and `ends` [num_chunks] are the layers of the stages (see `saved_beside`).
    """
    sizes = ends - starts
    return np.array(
        [
            [
                saved_beside(table.types, table.saved_ns, first, size, other, other_size)
                for other, other_size in zip(starts, sizes, strict=True)
            ]
            for first, size in zip(starts, sizes, strict=True)
        ],
        dtype=np.int64,
    )


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class SegmentRuns:
    """What the layers [i, j) keep and need at ``[i, j]`` when they are computed again in segments of one length."""

    activation_bytes: Integers
    working_bytes: Integers


def segment_runs(layers: Sequence[Layer], length: int) -> SegmentRuns:
    """Return what runs of `layers` take in segments of `length` layers, 0 for all of a run; see `with_segments`."""
    num_layers = len(layers)
    kept = np.array([layer.modes[FULL].activation_bytes for layer in layers], dtype=np.int64)
    plain = np.array([layer.modes[NONE].activation_bytes for layer in layers], dtype=np.int64)
    needed = np.array([layer.modes[FULL].working_bytes for layer in layers], dtype=np.int64)
    before = np.concatenate(([0], np.cumsum(plain)))[:-1]
    activation, working = np.zeros((2, num_layers + 1, num_layers + 1), dtype=np.int64)
    for first in range(num_layers - 1, -1, -1):
        # A layer goes backward as under `full`, while those in front of it in its segment hold all that they keep.
        held = before[first:] + kept[first:] + needed[first:] - before[first] - kept[first]
        activation[first, first + 1 :] = kept[first]
        working[first, first + 1 :] = np.maximum.accumulate(held)
        end = first + length
        if length and end < num_layers:
            activation[first, end + 1 :] += activation[end, end + 1 :]
            working[first, end + 1 :] = np.maximum(working[first, end], working[end, end + 1 :])
    return SegmentRuns(activation_bytes=activation, working_bytes=working)


def layer_sums(network: Network, *, slower: Mapping[float, Network] | None = None) -> LayerSums:
    """Return the prefix sums of `network`'s layers.

    `slower` is the network at each speed but 1 where `Network.at_speed` would round other times: those of blocks.
    """
    if slower is None:
        slower = {speed: network.at_speed(speed) for speed in network.speeds if speed != 1}
    layers, kinds, boundaries = network.layers, network.kinds, network.boundaries

    def prefix(values: list[int]) -> Integers:
        return np.concatenate(([0], np.cumsum(np.array(values, dtype=np.int64))))

    return LayerSums(
        kinds=kinds,
        forward_ns=prefix([layer.forward_ns for layer in layers]),
        parameter_bytes=prefix([layer.parameter_bytes for layer in layers]),
        weight_ns=prefix([layer.weight_ns for layer in layers]),
        until_weight_bytes=prefix([layer.until_weight_bytes for layer in layers]),
        backward_ns=np.stack([prefix([layer.modes[kind].backward_ns for layer in layers]) for kind in kinds]),
        activation_bytes=np.stack([prefix([layer.modes[kind].activation_bytes for layer in layers]) for kind in kinds]),
        working_bytes=np.array(
            [[layer.modes[kind].working_bytes for layer in layers] for kind in kinds], dtype=np.int64
        ),
        offloaded_bytes=np.stack([prefix([layer.modes[kind].offloaded_bytes for layer in layers]) for kind in kinds])
        if network.offloads
        else None,
        segments={
            kinds.index(kind): segment_runs(layers, length)
            for kind, length in network.segments.items()
            if kind in kinds
        },
        halves=halves_table(network),
        mlp_bytes=np.array(
            [[layer.modes[kind].mlp_bytes if layer.halves else 0 for layer in layers] for kind in kinds], dtype=np.int64
        ),
        releases_attention=network.releases_attention,
        recomputes_first=network.recomputes_before_pairs,
        boundary_bytes=None
        if boundaries is None
        else np.array([_UNKNOWN if size is None else size for size in boundaries], dtype=np.int64),
        slower={speed: (other, layer_sums(other, slower={})) for speed, other in slower.items()},
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class StageCosts:
    """Times and memory of every stage of a plan, per microbatch (part)."""

    num_ranks: int
    forward_ns: Integers
    """Time of the forward, shape [num_stages]."""
    backward_ns: Integers
    """Time of the backward with recomputation and weight gradients, shape [num_stages]."""
    weight_ns: Integers
    """The part of the backward that computes weight gradients, shape [num_stages]."""
    recompute_ns: Integers
    """The part of the backward (of a split one, of its input gradient) that recomputes, shape [num_stages]."""
    activation_bytes: Integers
    """Bytes live from a stage's forward to the end of its backward or input gradient, shape [num_stages]."""
    until_weight_bytes: Integers
    """Bytes live from the end of a stage's input gradient to the end of its weight gradient, shape [num_stages]."""
    static_bytes: Integers
    """Bytes of weights, gradients, optimizer state and constant memory, shape [num_ranks]."""
    working_bytes: Integers
    """Bytes that an action needs for itself at most, of all that run on a rank, shape [num_ranks]."""
    offloaded_bytes: Integers | None = None
    """Bytes that the host keeps for every stage beside its activation, shape [num_stages]; None: nothing is moved."""
    copy_ns: Integers | None = None
    """Time of a copy of these in one direction, shape [num_stages]; None: nothing is moved."""
    host_link: HostLink | None = None
    """The link over which they are moved; None: nothing is moved."""
    first_moved: FirstMoved = ()
    """Of which backwards of every rank less leaves than of all others; empty: of none."""
    first_copy_ns: Integers | None = None
    """Time of a copy of these in one direction, rank by rank; None: nothing but what stages say is moved."""
    link_ns: Integers | None = None
    """What the messages that every stage sends on, and those that come back, take longer on their link, shape
    [num_stages]; None: all links are alike.
    """
    sent_bytes: Integers | None = None
    """Bytes that every stage sends on, shape [num_stages]; -1: the network does not say; None: it says none."""
    saved_ns: Integers | None = None
    """Time that every stage's forward saves beside the backward of each chunk of its rank, [num_stages, num_chunks];
    None: no forward runs beside a backward."""
    pair_bytes: Integers | None = None
    """The most that every stage's forward and the backward of each chunk of its rank hold together while they run
    beside each other, [num_stages, num_chunks]; None: none does.
    """
    stage_table: Integers | None = None
    """Stages of each chunk and rank, where forwards run beside backwards, shape [num_chunks, num_ranks]."""

    def messages(self, communication: Communication | None) -> Messages:
        """Return `communication` or, where messages differ by size or link, their times as `run` takes them.

        A forward waits for what the stage before sends on, a gradient for what comes back for what its stage sends on.
        """
        have_sizes = communication is not None and communication.bytes_per_s is not None and self.sent_bytes is not None
        if not have_sizes and self.link_ns is None:
            return communication
        communication = communication or Communication()
        sizes = np.full_like(self.forward_ns, _UNKNOWN) if self.sent_bytes is None else self.sent_bytes
        sent_ns = message_times(sizes, communication)
        times_ns = message_table(sent_ns if self.link_ns is None else sent_ns + self.link_ns)
        if communication.one_at_a_time:
            return InTurn(times_ns=times_ns, latency_ns=communication.latency_ns)
        return times_ns

    @cached_property
    def durations(self) -> Integers:
        """Durations of actions by class of `Graph`, shape [NUM_OPS * num_stages].

        Where anything is moved to the host, those of copies come behind them, one for each stage, and zero; where
        forwards run beside backwards, so it is, and pairs are behind zero. Copies of first backwards of which less
        leaves are last, behind as many classes as there may be pairs.
        """
        actions = duration_table(self.forward_ns, self.backward_ns, self.weight_ns)
        if self.saved_ns is None and self.first_copy_ns is None:
            return actions if self.copy_ns is None else np.concatenate((actions, self.copy_ns, [0]))
        num_stages = len(self.forward_ns)
        copies = np.zeros(num_stages, dtype=np.int64) if self.copy_ns is None else self.copy_ns
        if self.saved_ns is not None:
            pairs = self.pair_ns.reshape(-1)
        else:
            pairs = np.zeros(num_stages * (num_stages // self.num_ranks), dtype=np.int64)
        first = () if self.first_copy_ns is None else self.first_copy_ns
        return np.concatenate((actions, copies, [0], pairs, first)).astype(np.int64)

    @property
    def moved_bytes(self) -> Integers:
        """Bytes that actions move to the host or back, by class of `Graph`, as `durations`."""
        assert self.offloaded_bytes is not None
        sizes = np.zeros_like(self.durations)
        copies = NUM_OPS * len(self.forward_ns)
        sizes[copies : copies + len(self.offloaded_bytes)] = self.offloaded_bytes
        first = [size for own in self.first_moved for size in own]
        sizes[len(sizes) - len(first) :] = first
        return sizes

    @cached_property
    def pair_ns(self) -> Integers:
        """Time of every stage's forward beside the backward of each chunk of its rank, [num_stages, num_chunks]."""
        assert self.saved_ns is not None
        assert self.stage_table is not None
        pairs = np.empty_like(self.saved_ns)
        for own in self.stage_table.T:
            pairs[own] = self.forward_ns[own][:, np.newaxis] + self.backward_ns[own]
        return pairs - self.saved_ns


def message_table(sent_ns: Integers) -> Integers:
    """Return the time that the input of actions travels by class of `Graph`, from that of what each stage sends on."""
    table = np.zeros((len(sent_ns), NUM_OPS), dtype=np.int64)
    table[1:, Op.F] = sent_ns[:-1]
    table[:-1, Op.B] = table[:-1, Op.I] = sent_ns[:-1]
    return table.reshape(-1)


def sent_across(message_counts: Integers) -> Integers:
    """Return how many messages cross behind each stage, from those of each class: the inverse of `message_table`."""
    table = message_counts.reshape(-1, NUM_OPS)
    found = table[:, Op.B] + table[:, Op.I]
    found[:-1] += table[1:, Op.F]
    return np.asarray(found)


def message_times(sizes: Integers, communication: Communication) -> Integers:
    """Return the time of a message of each of `sizes` in bytes, in the same shape; -1: the network does not say."""
    times = [communication.message_of_ns(None if size == _UNKNOWN else size) for size in sizes.tolist()]
    return np.array(times, dtype=np.int64)


def duration_table(forward_ns: Integers, backward_ns: Integers, weight_ns: Integers) -> Integers:
    """Return durations by class of `Graph`, shape [NUM_OPS * num_stages], from those of every stage."""
    table = np.empty((len(forward_ns), NUM_OPS), dtype=np.int64)
    table[:, Op.F], table[:, Op.B] = forward_ns, backward_ns
    table[:, Op.I], table[:, Op.W] = backward_ns - weight_ns, weight_ns
    return table.reshape(-1)


def network_of_units(network: Network, schedule: Schedule) -> Network:
    """Return `network` with the costs of one microbatch (part) of `schedule`."""
    network = network.split_sequence(schedule.sequence_splits)
    return network.without_backward() if schedule.is_forward_only else network


def stage_costs(network: Network, plan: Plan, schedule: Schedule, *, in_pairs: bool = False) -> StageCosts:
    """Return the costs of `plan`'s stages under `schedule`; raise InputError if the plan does not fit the network.

    With `in_pairs` come those of forwards beside backwards, even if `schedule` has none.
    """
    network = network_of_units(network, schedule)
    network = network.without_delays() if plan.delays_weights is False else network
    network = network.releasing_attention() if plan.releases_attention else network
    if plan.num_layers != network.num_layers:
        raise InputError(
            value=plan.num_layers,
            rule=_("must add up to the {num_layers} layers of the network", num_layers=network.num_layers),
            place=_("plan for {name}, layers", name=network.name),
        )
    for kind, table in plan.recompute.items():
        if kind not in network.kinds and any(any(row) for row in table):
            raise InputError(
                value=kind,
                rule=_("must have only the recompute kinds of the network, {names}", names=", ".join(network.kinds)),
                place=_("plan for {name}, recompute", name=network.name),
                remedy=_(
                    "use another kind: full recompute drops the keys and values that later parts of a sequence need"
                )
                if plan.sequence_splits > 1 and kind == "full"
                else _("give the memory of that kind in the layer file"),
            )
    sums = layer_sums(network)
    check_cut(network, plan.layers, schedule.stage_table)
    counts = plan_counts(plan, sums.kinds, schedule.stage_table)
    has_pairs = in_pairs or schedule.has_pairs
    costs = costs_of_counts(network, sums, counts, schedule.stage_table, has_pairs=has_pairs)
    share = plan.moved_share
    return costs if share is None else with_first_moved(costs, network, share, counts.sum(axis=1), schedule)


def with_first_moved(
    costs: StageCosts, network: Network, share: MovedShare, layers: Integers, schedule: Schedule
) -> StageCosts:
    """Return `costs` where further ranks keep on the device what `share` says, of stages with so many `layers`.

    Raises InputError where `network` does not know the modules that move.
    """
    if not share.kept_bytes or schedule.is_forward_only or costs.host_link is None:
        return costs
    moved = first_moved(network, share, layers, schedule)
    rates = [network.copy_ns_per_byte(rank) for rank in range(schedule.num_ranks)]
    times = [math.ceil(size * rate) for own, rate in zip(moved, rates, strict=True) for size in own]
    return replace(costs, first_moved=moved, first_copy_ns=np.array(times, dtype=np.int64)) if times else costs


def plan_counts(plan: Plan, kinds: Sequence[str], stage_table: Integers) -> Integers:
    """Return the number of layers of every stage by recompute kind, shape [num_stages, num_kinds]."""
    counts = np.empty((stage_table.size, len(kinds)), dtype=np.int64)
    for chunk, stages in enumerate(stage_table.tolist()):
        for rank, stage in enumerate(stages):
            counts[stage] = [plan.count(kind, chunk, rank) for kind in kinds]
    return counts


def costs_of_counts(
    network: Network, sums: LayerSums, counts: Integers, stage_table: Integers, *, has_pairs: bool = False
) -> StageCosts:
    """Return costs from layer `counts` [num_stages, num_kinds], kinds in cell order.

    `network` gives head, tail, constant memory and what sets ranks apart; `stage_table` [num_chunks, num_ranks] gives
    the stages of each rank. With `has_pairs` come those of forwards beside backwards.
    """
    costs = _costs_at_one_speed(network, sums, counts, stage_table)
    if has_pairs:
        costs = replace(
            costs,
            stage_table=stage_table,
            saved_ns=_saved_in_pairs(network, sums, counts, stage_table),
            pair_bytes=_held_in_pairs(network, sums, counts, costs.activation_bytes, stage_table),
        )
    if not network.ranks:
        return costs
    times = {name: getattr(costs, name).copy() for name in ("forward_ns", "backward_ns", "weight_ns", "recompute_ns")}
    for speed, (other, of_layers) in sums.slower.items():
        own = stage_table[:, [rank.speed == speed for rank in network.ranks]]
        slow = _costs_at_one_speed(other, of_layers, counts, stage_table)
        for name, of_stages in times.items():
            of_stages[own] = getattr(slow, name)[own]
    reserved = np.array([rank.reserved_bytes for rank in network.ranks], dtype=np.int64)
    return replace(
        costs, **times, static_bytes=costs.static_bytes + reserved, link_ns=link_delays_ns(network, stage_table)
    )


def link_delays_ns(network: Network, stage_table: Integers) -> Integers | None:
    """Return what the messages behind every stage take longer on their link, [num_stages]; None: all are alike.

    `stage_table` [num_chunks, num_ranks] gives the stages of every rank.
    """
    if not network.longest_link_ns:
        return None
    num_ranks = stage_table.shape[1]
    ranks = np.empty(stage_table.size, dtype=np.int64)
    for rank, own in enumerate(stage_table.T):
        ranks[own] = rank
    links = np.array([rank.link_ns for rank in network.ranks], dtype=np.int64)
    delays = np.zeros(stage_table.size, dtype=np.int64)
    for stage, (sender, receiver) in enumerate(pairwise(ranks.tolist())):
        first, last = min(sender, receiver), max(sender, receiver)
        if last - first == 1:
            delays[stage] = links[first]
        elif last - first == num_ranks - 1 and first != last:
            delays[stage] = links[last]
    return delays


def _saved_in_pairs(network: Network, sums: LayerSums, counts: Integers, stage_table: Integers) -> Integers:
    """Return what forwards save beside backwards, each rank at its speed, shape [num_stages, num_chunks]."""
    ends = np.cumsum(counts.sum(axis=1))
    starts = ends - counts.sum(axis=1)
    saved = np.zeros((stage_table.size, len(stage_table)), dtype=np.int64)
    is_compiled = pays_for(_PAIR_ACTIONS * saved.size)
    for rank, own in enumerate(stage_table.T):
        speed = network.speed_of(rank)
        table = (sums if speed == 1 else sums.slower[speed][1]).halves
        if table is None:
            continue
        if is_compiled:
            from evenflow.simulate.pair_loops import fill_saved_in_pairs

            fill_saved_in_pairs(table.types, table.saved_ns, np.array(own), starts, ends - starts, saved)
        else:
            saved[own] = pair_saved_ns(table, starts[own], ends[own])
    return saved


def end_bytes(network: Network, num_stages: int) -> Integers:
    """Return what the head and the tail keep in every stage, shape [2, num_stages]."""
    ends = np.zeros((2, num_stages), dtype=np.int64)
    ends[0, 0], ends[1, -1] = network.head.activation_bytes, network.tail.activation_bytes
    return ends


def _held_in_pairs(
    network: Network, sums: LayerSums, counts: Integers, activation_bytes: Integers, stage_table: Integers
) -> Integers:
    """Return the most that forwards and backwards hold together, shape [num_stages, num_chunks].

    Where layers are computed again in segments it is all of both: what each layer keeps is not told.
    """
    sizes = counts.sum(axis=1)
    starts, ends = np.cumsum(sizes) - sizes, end_bytes(network, stage_table.size)
    held = np.empty((stage_table.size, len(stage_table)), dtype=np.int64)
    if not sums.segments and pays_for(_PAIR_ACTIONS * held.size):
        from evenflow.simulate.pair_loops import fill_held_in_pairs

        fill_held_in_pairs(
            *sums.pair_tables, ends, sums.releases_attention, np.array(stage_table), starts, np.array(counts), held
        )
        return held
    for own in stage_table.T.tolist():
        for forward, (chunk, backward) in product(own, enumerate(own)):
            if sums.segments:
                held[forward, chunk] = activation_bytes[forward] + activation_bytes[backward]
                continue
            held[forward, chunk] = held_beside(
                *(*sums.pair_tables, ends, sums.releases_attention),
                *(forward, starts[forward], counts[forward], backward, starts[backward], counts[backward]),
            )
    return held


def _costs_at_one_speed(network: Network, sums: LayerSums, counts: Integers, stage_table: Integers) -> StageCosts:
    """Return costs as if all ranks were as fast as the times of `network` are, and had all of their memory."""
    bounds = np.concatenate(([0], np.cumsum(counts.reshape(-1))))
    num_stages, num_kinds = counts.shape
    starts, ends = bounds[:-1].reshape(num_stages, num_kinds), bounds[1:].reshape(num_stages, num_kinds)
    first, last = starts[:, 0], ends[:, -1]
    forward = sums.forward_ns[last] - sums.forward_ns[first]
    parameters = sums.parameter_bytes[last] - sums.parameter_bytes[first]
    every_kind = np.arange(num_kinds)
    backward = (sums.backward_ns[every_kind, ends] - sums.backward_ns[every_kind, starts]).sum(axis=1)
    plain = sums.backward_ns[-1, last] - sums.backward_ns[-1, first]
    kept = sums.activation_bytes[every_kind, ends] - sums.activation_bytes[every_kind, starts]
    for kind, runs in sums.segments.items():
        kept[:, kind] = runs.activation_bytes[starts[:, kind], ends[:, kind]]
    activation = kept.sum(axis=1)
    recompute = backward - plain
    weight = sums.weight_ns[last] - sums.weight_ns[first]
    waiting = sums.until_weight_bytes[last] - sums.until_weight_bytes[first]
    working = sums.largest_working(starts, ends)
    offloaded = copy_ns = host_link = None
    if sums.offloaded_bytes is not None and network.host_link is not None:
        host_link = network.host_link
        offloaded = (sums.offloaded_bytes[every_kind, ends] - sums.offloaded_bytes[every_kind, starts]).sum(axis=1)
        ns_per_byte = np.empty(num_stages)
        for rank, own in enumerate(stage_table.T):
            ns_per_byte[own] = network.copy_ns_per_byte(rank)
        copy_ns = np.ceil(offloaded * ns_per_byte).astype(np.int64)
    for stage, block in ((0, network.head), (num_stages - 1, network.tail)):
        forward[stage] += block.forward_ns
        backward[stage] += block.backward_ns
        weight[stage] += block.weight_ns
        activation[stage] += block.activation_bytes
        waiting[stage] += block.until_weight_bytes
        parameters[stage] += block.parameter_bytes
        working[stage] = max(working[stage], block.working_bytes)
    static = parameters[stage_table].sum(axis=0) + network.constant_bytes
    return StageCosts(
        num_ranks=stage_table.shape[1],
        forward_ns=forward,
        backward_ns=backward,
        weight_ns=weight,
        recompute_ns=recompute,
        activation_bytes=activation,
        until_weight_bytes=waiting,
        static_bytes=static,
        working_bytes=working[stage_table].max(axis=0),
        offloaded_bytes=offloaded,
        copy_ns=copy_ns,
        host_link=host_link,
        sent_bytes=None if sums.boundary_bytes is None else sums.boundary_bytes[last],
    )
