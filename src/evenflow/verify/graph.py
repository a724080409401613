"""All plans with one cut between the chunks, as the paths of a graph: rank after rank takes up the network.

A state says where both chunks are cut before a rank, an arc what the rank holds. The first chunk goes from 0 to the
cut; the second one from there to the end, or from the end back to there. With one chunk the second one stays at 0.

Other orders have one graph, whose states only *count* the layers of earlier ranks, each as a whole number by its work.
All plans are among its paths, and so are some that take layers twice and leave others out, unless all layers are equal.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenflow.language import _
from evenflow.verify import contents
from evenflow.verify.certificate import Certificate, CertificateError
from evenflow.verify.contents import ACTIVATION, PARAMETERS, TO, WAITING, WORKING, times_of
from evenflow.verify.joint import joint_contents
from evenflow.verify.order import B, I, OrderOfWork, Table

FAR = 2**61
"""Longer than any path."""
_TOGETHER = 50
"""States whose arcs are made together."""
_NONE = -1
"""The second stage of ranks that have only one."""
_PARTS = 8
"""What the longest layer counts where states are counted."""


@dataclass(frozen=True, eq=False)
class ContentGraph:
    """Arcs of all steps, one after the other; a step is a rank, in the order of the first chunk."""

    starts: Table
    """First arc of each step and the end of all, shape [num_steps + 1]."""
    sources: Table
    """State before the step of each arc, [num_arcs]."""
    targets: Table
    """State behind the step of each arc, [num_arcs]."""
    durations: Table
    """Times of F, B, I and W of the first chunk, then of the next one, [num_arcs, 4 * num_chunks]."""
    states: tuple[Table, ...]
    """Cuts of both chunks before each step and behind the last, or a count and 0, [num_states, 2] each."""

    def step(self, number: int) -> slice:
        """Return the arcs of a step."""
        return slice(int(self.starts[number]), int(self.starts[number + 1]))

    def keep(self, alive: NDArray[np.bool_]) -> "ContentGraph":
        """Return the graph with the arcs where `alive` holds."""
        starts = np.concatenate(([0], np.cumsum(alive)))[self.starts]
        return ContentGraph(starts, self.sources[alive], self.targets[alive], self.durations[alive], self.states)

    def within(self, weights: Table, most: int) -> NDArray[np.bool_]:
        """Return which arcs are on a path of at most `most`, if ``durations @ weights[step]`` is an arc's length."""
        num_steps, widest = len(self.starts) - 1, max(map(len, self.states))
        before, behind = np.full((2, num_steps + 1, widest), FAR)
        before[0, 0] = behind[num_steps, 0] = 0
        spans = [self.step(number) for number in range(num_steps)]
        lengths = [self.durations[span] @ weights[number] for number, span in enumerate(spans)]
        for number, span in reversed(list(enumerate(spans))):
            whole = np.minimum(lengths[number] + behind[number + 1, self.targets[span]], FAR)
            np.minimum.at(behind[number], self.sources[span], whole)
        alive = np.zeros(len(self.sources), dtype=np.bool_)
        for number, span in enumerate(spans):
            reached = np.minimum(before[number, self.sources[span]] + lengths[number], FAR)
            alive[span] = reached + behind[number + 1, self.targets[span]] <= most
            np.minimum.at(before[number + 1], self.targets[span], reached)
        return alive

    def connected(self) -> "ContentGraph":
        """Return the graph with the arcs that are on a path."""
        return self.keep(self.within(np.zeros((len(self.starts) - 1, self.durations.shape[1]), dtype=np.int64), 0))

    def split(self, kind: str, number: int, values: list[int]) -> list["ContentGraph"]:
        """Return the low and the high side of a split by the arcs of a step; none where there is no such split.

        ``time``: a weight for each duration, then the most that the durations so weighed are on the low side. ``cut``:
        a chunk, and the last place where it is cut behind the rank. ``state``: where both chunks are cut there.
        """
        span = self.step(number)
        cuts = self.states[number + 1][self.targets[span]]
        if kind == "time" and len(values) == self.durations.shape[1] + 1 and {*values[:-1]} <= {0, 1}:
            low = self.durations[span] @ np.array(values[:-1]) <= values[-1]
        elif kind == "cut" and len(values) == 2 and values[0] in (0, 1):
            low = cuts[:, values[0]] <= values[1]
        elif kind == "state" and len(values) == 2:
            low = (cuts == values).all(axis=1)
        else:
            return []
        alive = np.ones((2, len(self.sources)), dtype=np.bool_)
        alive[0, span], alive[1, span] = low, ~low
        return [self.keep(alive[0]), self.keep(alive[1])]


class ContentGraphs:
    """The graphs of a problem, of plans that take less than a bound."""

    def __init__(self, certificate: Certificate, order: OrderOfWork, costs: contents.Costs, bound_ns: int) -> None:
        """Prepare them; raises CertificateError where plans are no paths."""
        self.ranks = list(dict.fromkeys(order.ranks))
        self.stages = [[stage for stage, own in enumerate(order.ranks) if own == rank] for rank in self.ranks]
        """Stages of each step."""
        first, rest = order.ranks[: len(self.ranks)], order.ranks[len(self.ranks) :]
        self.num_chunks, self.num_layers = len(self.stages[0]), costs.num_layers
        if len(self.ranks) < len(order.orders) or {*map(len, self.stages)} != {self.num_chunks}:
            raise CertificateError(_("order: every rank must have as many stages"))
        self.counted = first != self.ranks or rest not in ([], self.ranks, self.ranks[::-1])
        """Whether states say how much of the network is on earlier ranks, and not where its chunks are cut."""
        self.turned = not self.counted and rest not in ([], self.ranks)
        self._order, self._head, self._least = order, costs.blocks(0)[0], costs.least_ns()
        self._work = self._least[:, 2]
        layers = np.diff(self._work)
        self._shares = (_PARTS * layers // max(1, int(layers.max(initial=0)))).clip(1)
        """What each layer counts where states are counted."""
        counted = np.append(0, np.cumsum(self._shares))
        self.aim(bound_ns)
        self._rooms, self._parts, self._joint = [], [], []
        for at, rank in enumerate(self.ranks):
            facts, stages = certificate.ranks[rank], (self.stages[at] + [_NONE] * (self.num_chunks == 1))
            self._rooms.append(FAR if facts.limit_bytes is None else facts.limit_bytes - facts.constant_bytes)
            live, most = order.live(rank, stages), int(self._rooms_ns[at][0])
            live = live[[not ((live >= row).all(axis=1) & (live > row).any(axis=1)).any() for row in live]]
            own = [costs.contents(stage, turned=self.turned and stage != at, most_ns=most) for stage in self.stages[at]]
            if self.num_chunks == 1:
                own.append(contents.contents_of(np.zeros((1, 9), dtype=np.int64), self.num_layers + 1))
            held = [
                live[:, chunk :: len(own)] @ of.rows[:, [ACTIVATION, WAITING]].T + of.rows[:, PARAMETERS]
                for chunk, of in enumerate(own)
            ]
            self._parts.append((own, held))
            if self.counted:
                self._joint.append(joint_contents(own, held, counted, most_ns=most, room=self._rooms[at]))

    def aim(self, bound_ns: int) -> None:
        """Look at plans that take less than a bound, which is at most the one that the graphs were prepared for."""
        order, head, least, rooms_ns = self._order, self._head, self._least, []
        for at, rank in enumerate(self.ranks):
            # A path: the forwards before a rank's first action, all of its own, and the gradients after its last. Both
            # are of its first chunk, whose forward comes first for every microbatch, and whose gradient comes last.
            goes_back = order.orders[rank][-1][1] in (B, I)
            before = self.stages[at][0]
            ramp = (head.forward_ns + goes_back * (head.backward_ns - head.weight_ns)) * (before > 0)
            ramps = ramp + (1 + goes_back) * sum(order.messages_ns[:before]) + least[:, 0] + goes_back * least[:, 1]
            rooms_ns.append(np.maximum((bound_ns - 1 - ramps) // order.num_units, -1))
        self._rooms_ns, ends = rooms_ns, np.cumsum([0, *(room[0] for room in rooms_ns)])
        """Most time of each step for a microbatch, by the place where the first chunk is taken up."""
        self._done = np.stack((self._work[-1] - (ends[-1] - ends), ends), axis=1)
        """Least and most work of layers that is done before each step."""

    @property
    def middles(self) -> range:
        """The places where the first chunk may end."""
        has_cut = self.num_chunks == 2 and not self.counted
        return range(0 if has_cut else self.num_layers, self.num_layers + 1)

    def graph(self, middle: int) -> ContentGraph:
        """Return the graph of the plans whose first chunk ends at `middle`."""
        last, states, steps = self.num_layers, [], []
        ends = ((0, middle), (middle, last)) if len(self.middles) > 1 else ((0, 0), (last, 0))
        ends = ((0, 0), (int(self._shares.sum()), 0)) if self.counted else ends
        first, final = ((0, last), (middle, middle)) if self.turned else ends
        arcs = self._counted_arcs if self.counted else self._arcs
        states.append(np.array([first]))
        for number in range(len(self.ranks)):
            begins = range(0, len(states[-1]) or 1, _TOGETHER)
            blocks = [arcs(number, middle, states[-1], begin) for begin in begins]
            sources, places, durations = map(np.concatenate, zip(*blocks, strict=True))
            if number == len(self.ranks) - 1:
                ends_well = (places == final).all(axis=1)
                sources, places, durations = sources[ends_well], places[ends_well], durations[ends_well]
            keys, targets = np.unique(places[:, 0] * (last + 1) + places[:, 1], return_inverse=True)
            states.append(np.stack(np.divmod(keys, last + 1), axis=1))
            steps.append((sources, targets, durations))
        states[-1] = np.array([final])
        sources, targets, durations = map(np.concatenate, zip(*steps, strict=True))
        starts = np.cumsum([0, *(len(own[0]) for own in steps)])
        return ContentGraph(starts, sources, targets, durations, tuple(states)).connected()

    def _arcs(self, number: int, middle: int, states: Table, begin: int) -> tuple[Table, Table, Table]:
        """Return source, places behind and durations of the arcs of a step from some states, the first at `begin`.

        Of contents with the same layers, each of the first chunk is joined by the fastest of the second that fits, and
        stays if no faster one of the first chunk is joined by one as fast.
        """
        (first, second), (held, held_beside) = self._parts[number]
        at, beside = states[begin : begin + _TOGETHER].T
        seconds = second.spans_of_place[beside + 1] - second.spans_of_place[beside]
        origin, index = _spread((first.spans_of_place[at + 1] - first.spans_of_place[at]) * seconds)
        own_span = first.spans_of_place[at][origin] + index // seconds[origin]
        span = second.spans_of_place[beside][origin] + index % seconds[origin]
        row, joined, room = first.spans[own_span], second.spans[span], self._rooms_ns[number][at[origin]]
        places = np.stack((first.rows[row, TO], second.rows[joined, TO]), axis=1)
        beside_work = self._work[places[:, 1]] - self._work[-1 if self.turned else middle]
        done = self._work[places[:, 0]] + (-1 if self.turned else self.num_chunks - 1) * beside_work
        may = (places[:, 0] <= middle) & ((places[:, 1] >= middle) | (not self.turned))
        may &= (done >= self._done[number + 1, 0]) & (done <= self._done[number + 1, 1])
        may &= first.loads[row] + second.loads[joined] <= room
        origin, own_span, span, places, room = (own[may] for own in (origin, own_span, span, places, room))
        seconds = np.diff(second.spans)[span]
        which, index = _spread(np.diff(first.spans)[own_span] * seconds)
        row = first.spans[own_span][which] + index // seconds[which]
        joined = second.spans[span][which] + index % seconds[which]
        may = first.loads[row] + second.loads[joined] <= room[which]
        row, joined, which = row[may], joined[may], which[may]
        working = np.maximum(first.rows[row, WORKING], second.rows[joined, WORKING])
        may = (held[:, row] + held_beside[:, joined]).max(axis=0) + working <= self._rooms[number]
        row, joined, which = row[may], joined[may], which[may]
        may = _undominated(which, joined)
        row, joined, which = row[may], joined[may], which[may]
        durations = np.hstack((times_of(first.rows[row]), times_of(second.rows[joined]))[: self.num_chunks])
        return begin + origin[which], places[which], durations

    def _counted_arcs(self, number: int, _middle: int, states: Table, begin: int) -> tuple[Table, Table, Table]:
        """Return the same as `_arcs` where states are counted: all that a rank may hold may follow each."""
        counts, durations = self._joint[number]
        behind = (states[begin : begin + _TOGETHER, :1] + counts).ravel()
        layers, (least, most) = np.diff(self._work), self._done[number + 1]
        may = (behind * (-(-layers // self._shares)).max() >= least) & (behind * (layers // self._shares).min() <= most)
        source, index = np.divmod(np.flatnonzero(may), len(counts))
        return begin + source, behind[may, np.newaxis] * (1, 0), durations[index]


def _spread(counts: Table) -> tuple[Table, Table]:
    """Return, for so many of each, which each belongs to, and its number among its like."""
    origin = np.repeat(np.arange(len(counts)), counts)
    return origin, np.arange(len(origin)) - np.repeat(np.cumsum(counts) - counts, counts)


def _undominated(group: Table, joined: Table) -> NDArray[np.bool_]:
    """Return where the second chunk is faster than beside all faster contents of the first, which come before."""
    is_first, scale = np.append(True, group[1:] != group[:-1])[: len(group)], int(joined.max(initial=0)) + 1
    least = np.minimum.accumulate(joined - group * scale) + group * scale
    return np.asarray(is_first | (joined < np.append(0, least[:-1])[: len(group)]))
