"""Every plan of a small problem, costed layer by layer and timed action by action: what the solver is held against.

Nothing here comes from the solver or from the cost model: only `Network`, the schedule's orders and the slow simulator
of `oracle`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations_with_replacement, pairwise
from math import comb, prod

import numpy as np
from numpy.typing import NDArray

from evenflow.model import (
    FULL,
    NONE,
    CellRule,
    Communication,
    EndBlock,
    HostLink,
    Layer,
    Mode,
    Network,
    Request,
    mixing,
)
from evenflow.schedule import Action, Op, Schedule
from evenflow.solve.problem import Problem, problem_of_order
from tests.oracle import end_times, orders_of
from tests.strategies import FamilySizes, inputs_of

Content = tuple[int, int, int, int, int, int, int, int]
"""Forward, backward, activation, parameters, weight gradient and what waits for it, working memory, and what the host
keeps, of a cell.
"""

Costs = NDArray[np.int64]
Moved = Mapping[tuple[int, int], int]
"""Bytes that leave of the passes of a stage and microbatch of which not as many do as of the others."""
NOTHING: Moved = {}


@dataclass(frozen=True, kw_only=True)
class Case:
    """A problem without its memory limit."""

    network: Network
    sizes: FamilySizes
    order: Schedule | None = None
    """Another order of these sizes than the family's."""
    mix_any: bool = False
    rule: CellRule | None = None
    """Another rule of cells than `mix_any` says."""
    allow_empty: bool = False
    only_ends_empty: bool = False
    message_ns: int = 0
    transfer_ns: int = 0
    """Part of a message's time beside `message_ns`, where layers do not say how many bytes they send on."""
    bytes_per_s: int | None = None
    """Bandwidth, for layers that say how many bytes they send on."""
    one_at_a_time: bool = False
    """Whether a rank sends one message at a time."""

    @property
    def communication(self) -> Communication | None:
        are_alike = not any(rank.link_ns for rank in self.network.ranks)
        if self.bytes_per_s is None and not self.message_ns and not self.transfer_ns and are_alike:
            return None
        return Communication(
            latency_ns=self.message_ns, transfer_ns=self.transfer_ns, bytes_per_s=self.bytes_per_s,
            one_at_a_time=self.one_at_a_time,
        )  # fmt: skip

    def sent_ns(self, border: int) -> int:
        """Time of what a stage sends on whose last layer is the one before `border`."""
        size = (self.split.head if border == 0 else self.split.layers[border - 1]).boundary_bytes
        if size is None or self.bytes_per_s is None:
            return self.message_ns + self.transfer_ns
        return self.message_ns + math.ceil(Fraction(10**9 * size, self.bytes_per_s))

    @cached_property
    def schedule(self) -> Schedule:
        return self.sizes.schedule() if self.order is None else self.order

    @cached_property
    def split(self) -> Network:
        split = self.network.split_sequence(self.sizes.sequence_splits)
        has_backward = any(action.op != Op.F for order in orders_of(self.schedule) for action in order)
        return split if has_backward else split.without_backward()

    @property
    def cell_rule(self) -> CellRule:
        return self.rule or mixing(self.mix_any)

    def request(self, limit_bytes: int | None = None) -> Request:
        return Request(
            network=self.network, sizes=self.sizes.sizes, memory_limit_bytes=limit_bytes, cell_rule=self.cell_rule,
            allow_empty=self.allow_empty, only_ends_empty=self.only_ends_empty, communication=self.communication,
        )  # fmt: skip

    def problem(self, limit_bytes: int | None = None) -> Problem:
        return problem_of_order(self.request(limit_bytes), self.schedule)

    @property
    def arguments(self) -> dict[str, object]:
        """What `plan` takes, for the order of a family."""
        return {
            "num_ranks": self.sizes.num_ranks, "num_chunks": self.sizes.num_chunks,
            "num_microbatches": self.sizes.num_microbatches, "sequence_splits": self.sizes.sequence_splits,
            "schedule": self.sizes.family, "mix_any": self.mix_any, "allow_empty": self.allow_empty,
            "communication": self.communication,
        }  # fmt: skip

    def num_plans(self) -> int:
        """At most so many plans."""
        num_kinds, cells = len(self.split.kinds), self.sizes.num_cells
        return (
            sum(
                prod(comb(after - before + num_kinds - 1, num_kinds - 1) for before, after in pairwise(bounds))
                for bounds in self.cuts()
            )
            if comb(self.network.num_layers + cells - 1, cells - 1) < 10_000
            else 10**9
        )

    def cuts(self) -> list[tuple[int, ...]]:
        """Borders of the cells, 0 and the number of layers included."""
        layers, inner = self.network.num_layers, self.sizes.num_cells - 1
        every = ((0, *cut, layers) for cut in combinations_with_replacement(range(layers + 1), inner))
        empty = (0, inner) if self.only_ends_empty else range(inner + 1)
        may = [self.allow_empty and cell in empty for cell in range(inner + 1)]
        return [
            cut
            for cut in every
            if all(may[cell] or after > before for cell, (before, after) in enumerate(pairwise(cut)))
        ]


@dataclass(frozen=True, kw_only=True)
class Plans:
    """All plans of a case: their makespans and the highest memory of each rank [rank, plan], one entry a plan."""

    makespans_ns: NDArray[np.int64]
    rank_peaks_bytes: NDArray[np.int64]

    @cached_property
    def peaks_bytes(self) -> NDArray[np.int64]:
        """The highest memory on any rank."""
        return np.asarray(self.rank_peaks_bytes.max(axis=0))

    def best_ns(self, limit_bytes: int | None, more_bytes: Sequence[int] = ()) -> int | None:
        """The shortest step of those that fit, where ranks may hold more than the limit; None when none fits."""
        fitting = self.makespans_ns
        if limit_bytes is not None:
            limits = limit_bytes + np.array(more_bytes or [0] * len(self.rank_peaks_bytes))
            fitting = fitting[(self.rank_peaks_bytes <= limits[:, None]).all(axis=0)]
        return int(fitting.min()) if len(fitting) else None

    @cached_property
    def least_bytes(self) -> int:
        """The smallest limit under which there is a plan."""
        return int(self.peaks_bytes.min())

    def limits(self) -> list[int]:
        """Limits that change the answer, tightest first: every point of the front of makespan and memory."""
        order = np.lexsort((self.makespans_ns, self.peaks_bytes))
        front: list[int] = []
        best = None
        for index in order.tolist():
            if best is None or self.makespans_ns[index] < best:
                best = self.makespans_ns[index]
                front.append(int(self.peaks_bytes[index]))
        return front


def every_plan(case: Case) -> Plans:
    """Costs of all cuts times all recompute counts."""
    stages, ranks = case.sizes.num_cells, case.network.ranks
    rank_of = case.schedule.stage_ranks
    networks = [slowed(case.split, ranks[rank].speed if ranks else 1.0) for rank in rank_of]
    known: dict[tuple[int, int, int, float], NDArray[np.int64]] = {}
    tables: list[list[NDArray[np.int64]]] = [[] for _ in range(stages)]
    sent_ns = np.array([case.sent_ns(border) for border in range(case.network.num_layers + 1)])
    sent: list[NDArray[np.int64]] = []
    neighbours = {frozenset((rank, (rank + 1) % len(ranks))): ranks[rank].link_ns for rank in range(len(ranks))[::-1]}
    delays = np.array([neighbours.get(frozenset(pair), 0) for pair in pairwise((*rank_of, rank_of[-1]))])
    for cut in case.cuts():
        contents = []
        for stage, (start, end) in enumerate(pairwise(cut)):
            network = networks[stage]
            speed = ranks[rank_of[stage]].speed if ranks else 1.0
            key = (start, end, (stage == 0) + 2 * (stage == stages - 1), speed)
            if key not in known:
                blocks = [network.head] * (stage == 0) + [network.tail] * (stage == stages - 1)
                known[key] = np.array(_contents(network, start, end, blocks, case.cell_rule), dtype=np.int64)
            contents.append(known[key])
        grid = np.indices([len(table) for table in contents]).reshape(stages, -1)
        sent.append(np.repeat((sent_ns[list(cut[1:])] + delays)[:, np.newaxis], grid.shape[1], axis=1))
        for stage, table in enumerate(contents):
            tables[stage].append(table[grid[stage]])
    costs = np.stack([np.concatenate(table) for table in tables])  # [stage, plan, 8]
    link = case.network.host_link
    return Plans(
        makespans_ns=makespans_of(
            case.schedule,
            costs,
            np.concatenate(sent, axis=1),
            latency_ns=case.message_ns if case.one_at_a_time else None,
            host_link=link,
            sharers=[rank.host_sharers for rank in case.network.ranks],
        ),
        rank_peaks_bytes=peaks_of(case.schedule, costs, link)
        + case.network.constant_bytes
        + np.array([rank.reserved_bytes for rank in ranks] or [0] * case.sizes.num_ranks)[:, np.newaxis],
    )


def slowed(network: Network, speed: float) -> Network:
    """The network with every time divided by a speed and rounded."""

    def times(part: Layer | EndBlock | Mode, *names: str) -> dict[str, int]:
        values = {name: getattr(part, name) for name in names}
        return {name: round(value / speed) for name, value in values.items() if value is not None}

    def layer(part: Layer) -> Layer:
        modes = {kind: replace(mode, **times(mode, "backward_ns")) for kind, mode in part.modes.items()}
        return replace(part, modes=modes, **times(part, "forward_ns", "stated_weight_ns"))

    ends = {
        name: replace(block, **times(block, "forward_ns", "backward_ns", "stated_weight_ns"))
        for name, block in (("head", network.head), ("tail", network.tail))
    }
    return replace(network, runs=tuple(replace(run, layer=layer(run.layer)) for run in network.runs), **ends)


def _contents(network: Network, start: int, end: int, blocks: list[EndBlock], rule: CellRule) -> list[Content]:
    """A cell with the layers [start, end): one entry for every way to recompute them."""
    result = []
    for kinds in combinations_with_replacement(network.kinds, end - start):  # in cell order, as kinds are
        if not _allowed(kinds, rule):
            continue
        layers = network.layers[start:end]
        modes = [layer.modes[kind] for layer, kind in zip(layers, kinds, strict=True)]
        kept, working = _segments(network, layers, kinds)
        result.append((
            sum(part.forward_ns for part in (*layers, *blocks)),
            sum(part.backward_ns for part in (*modes, *blocks)),
            kept + sum(part.activation_bytes for part in blocks),
            sum(part.parameter_bytes for part in (*layers, *blocks)),
            sum(part.weight_ns for part in (*layers, *blocks)),
            sum(part.until_weight_bytes for part in (*layers, *blocks)),
            max((working, *(part.working_bytes for part in blocks))),
            sum(mode.offloaded_bytes for mode in modes),
        ))  # fmt: skip
    return result


def _segments(network: Network, layers: Sequence[Layer], kinds: Sequence[str]) -> tuple[int, int]:
    """Activation and working memory of layers under these kinds, those that are computed again in segments together."""
    kept, working = 0, 0
    for kind in dict.fromkeys(kinds):
        own = [layer for layer, other in zip(layers, kinds, strict=True) if other == kind]
        if kind not in network.segments:
            kept += sum(layer.modes[kind].activation_bytes for layer in own)
            working = max(working, *(layer.modes[kind].working_bytes for layer in own))
            continue
        length = network.segments[kind] or len(own)
        for begin in range(0, len(own), length):
            segment = own[begin : begin + length]
            kept += segment[0].modes[FULL].activation_bytes
            for at, layer in enumerate(segment):
                again = sum(other.modes[NONE].activation_bytes for other in segment[:at])
                inputs = layer.modes[FULL].activation_bytes - segment[0].modes[FULL].activation_bytes
                working = max(working, again + inputs + layer.modes[FULL].working_bytes)
    return kept, working


def _allowed(kinds: tuple[str, ...], rule: CellRule) -> bool:
    """Whether the layers of a cell may be under these kinds, one for each layer."""
    if any(set(pair) <= set(kinds) for pair in rule.apart):
        return False
    if rule.alike and len(set(kinds)) > 1:
        return False
    if rule.full is not None:
        least, most = rule.full
        full = kinds.count(FULL)
        enough = full >= least or full == len(kinds)
        return enough and (most is None or full <= most) and kinds.count(NONE) == len(kinds) - full
    return not rule.kinds or set(kinds) <= set(rule.kinds)


def _duration(costs: Costs, action: Action) -> Costs:
    """Of one action in every plan."""
    forward, backward, weight = (costs[action.stage, :, place] for place in (0, 1, 4))
    return {Op.F: forward, Op.B: backward, Op.I: backward - weight, Op.W: weight}[action.op]


def leaving(
    order: list[Action], host_link: HostLink, moved: Moved = NOTHING, *, rank: int = 0
) -> dict[int, tuple[int, int, int]]:
    """Places in the order of a rank of the forwards whose activations leave.

    Each has the place of its backward, the last one at which it is on the device at first, and the first one at which
    it is there again.
    """
    back = {(action.stage, action.microbatch): at for at, action in enumerate(order) if action.op in (Op.B, Op.I)}
    ends = {at: back.get((action.stage, action.microbatch)) for at, action in enumerate(order) if action.op == Op.F}
    chunks = sorted({action.stage for action in order})
    rows = host_link.cell_ahead or [[host_link.ahead] * (rank + 1)]
    spans = {}
    for at, end in ends.items():
        ahead = rows[chunks.index(order[at].stage) % len(rows)][rank]
        if end is not None and any(range(at + 2, end - ahead)):
            spans[at] = end, at + 1, end - ahead

    def there(at: int, place: int) -> bool:
        if at not in spans:
            return at <= place <= (at if ends[at] is None else ends[at])
        end, last, first = spans[at]
        return at <= place <= last or first <= place <= end

    for place in range(len(order) if host_link.buffers is not None else 0):
        over = sum(there(at, place) for at in ends) - host_link.buffers
        coming = sorted((end, at) for at, (end, _last, first) in spans.items() if first <= place < end)
        for end, at in reversed(coming):
            if over > 0:
                spans[at] = end, spans[at][1], place + 1
                over -= 1
        if over > 0 and place - 1 in spans:
            spans[place - 1] = spans[place - 1][0], place - 1, spans[place - 1][2]
    return {at: span for at, span in spans.items() if moved.get((order[at].stage, order[at].microbatch)) != 0}


def makespans_of(
    schedule: Schedule,
    costs: Costs,
    sent_ns: Costs,
    *,
    latency_ns: int | None,
    host_link: HostLink | None,
    sharers: list[int | None],
    moved: Moved = NOTHING,
) -> Costs:
    """Of all plans; costs are [stage, plan, 8], and what a message behind each stage takes is [stage, plan].

    With a latency, ranks send one message at a time, each of which keeps the link busy for the rest of its time.
    """
    orders = orders_of(schedule)
    ends = end_times(orders, schedule.num_stages, lambda action: 1)
    before = {after: action for order in orders for action, after in pairwise(order)}
    rank_of = {action: rank for rank, order in enumerate(orders) for action in order}
    done: dict[Action, Costs] = {}
    nothing = np.zeros(costs.shape[1], dtype=np.int64)
    sent: dict[Action, Costs] = {}
    free = [nothing] * len(orders)
    place = {action: at for order in orders for at, action in enumerate(order)}
    lines = [{"out": nothing, "in": nothing} for _order in orders]
    away = [leaving(order, host_link, moved, rank=rank) if host_link else {} for rank, order in enumerate(orders)]
    back = [{end for end, _last, _first in of_rank.values()} for of_rank in away]
    copied: dict[tuple[str, Action], Costs] = {}

    def copy(way: str, action: Action, asked: Costs) -> None:
        rank, link = rank_of[action], host_link
        assert link is not None
        line = "out" if link.one_engine else way
        begin = np.maximum(asked, lines[rank][line])
        among = (sharers[rank] if sharers else None) or link.sharers
        size = moved.get((action.stage, action.microbatch), costs[action.stage, :, 7])
        rate = among * 1e9 / link.bytes_per_s
        if link.keepers and link.keepers[rank] is not None and link.keeper_bytes_per_s is not None:
            rate = 1e9 / link.keeper_bytes_per_s
        took = np.ceil(size * rate).astype(np.int64)
        copied[way, action] = lines[rank][line] = begin + took

    for action in sorted(ends, key=ends.__getitem__):  # all that an action waits for ends earlier
        start = done[before[action]] if action in before else nothing
        own, at, rank = orders[rank_of[action]], place[action], rank_of[action]
        for begin, (_end, last, _first) in away[rank].items():
            if last + 1 == at:
                start = np.maximum(start, copied["out", own[begin]])
        for end in sorted(end for end, _last, first in away[rank].values() if first == at):
            copy("in", own[end], start)
        if at in back[rank]:
            start = np.maximum(start, copied["in", action])
        for needed in inputs_of(action, schedule.num_stages):
            if needed in done:
                crosses = rank_of[needed] != rank_of[action]
                message_ns = sent_ns[min(needed.stage, action.stage)] if crosses else 0
                arrival = sent[needed] + message_ns if crosses and latency_ns is not None else done[needed] + message_ns
                start = np.maximum(start, arrival)
        done[action] = start + _duration(costs, action)
        if at in away[rank]:
            copy("out", action, done[action])
        if latency_ns is not None and (stage := _receiver(action, schedule)) is not None:
            rank = rank_of[action]
            sent[action] = np.maximum(done[action], free[rank])
            free[rank] = sent[action] + sent_ns[min(action.stage, stage)] - latency_ns
    return np.max([done[order[-1]] for order in orders], axis=0)


def _receiver(action: Action, schedule: Schedule) -> int | None:
    """The stage on another rank that waits for what an action gives; None where there is none."""
    stage = action.stage + {Op.F: 1, Op.B: -1, Op.I: -1, Op.W: 0}[action.op]
    ranks = schedule.stage_ranks
    return stage if 0 <= stage < len(ranks) and ranks[stage] != ranks[action.stage] else None


def peaks_of(schedule: Schedule, costs: Costs, host_link: HostLink | None, moved: Moved = NOTHING) -> Costs:
    """The highest memory of each rank beside the constant, of all plans; [rank, plan]."""

    orders, peaks = orders_of(schedule), []
    has_backward = any(action.op != Op.F for order in orders for action in order)
    for rank, order in enumerate(orders):
        stages = sorted({action.stage for action in order})
        held = sum(costs[stage, :, 3] for stage in stages) + np.max([costs[stage, :, 6] for stage in stages], axis=0)
        highest = held
        away = leaving(order, host_link, moved, rank=rank) if host_link else {}
        ends = {(action.stage, action.microbatch): at for at, action in enumerate(order) if action.op in (Op.B, Op.I)}
        for at, action in enumerate(order):
            near = np.zeros_like(held)
            for begin, first in enumerate(order):
                if first.op != Op.F:
                    continue
                end = ends.get((first.stage, first.microbatch), begin)
                spans = [(begin, away[begin][1]), (away[begin][2], end)] if begin in away else [(begin, end)]
                size = costs[first.stage, :, 7]
                leaves = moved.get((first.stage, first.microbatch), size) if begin in away else size
                near = near + np.where(any(low <= at <= high for low, high in spans), size, 0)
                near = near + (size - leaves) * (begin <= at <= end and not any(a <= at <= b for a, b in spans))
            activation, waiting = costs[action.stage, :, 2], costs[action.stage, :, 5]
            changes = {Op.F: activation, Op.B: -activation, Op.I: waiting - activation, Op.W: -waiting}
            during = held + changes[action.op] if action.op == Op.F else held
            highest = np.maximum(highest, near + during)
            if has_backward:  # else an activation is dropped at once
                held = held + changes[action.op]
        peaks.append(highest)
    for rank, keeper in enumerate(host_link.keepers if host_link else ()):
        if keeper is not None:
            peaks[keeper] = peaks[keeper] + _pool(orders[rank], costs, host_link, moved, rank)
    return np.array(peaks)


def _pool(order: list[Action], costs: Costs, host_link: HostLink, moved: Moved, rank: int) -> Costs:
    """The most bytes that a rank has away from the end of a forward to the beginning of its backward, of all plans."""
    most = np.zeros(costs.shape[1], dtype=np.int64)
    away = leaving(order, host_link, moved, rank=rank)
    for place in range(len(order)):
        passes = [order[begin] for begin, (end, _last, _first) in away.items() if begin <= place < end]
        sizes = [moved.get((own.stage, own.microbatch), costs[own.stage, :, 7]) for own in passes]
        most = np.maximum(most, sum(sizes, start=np.zeros_like(most)))
    return most
