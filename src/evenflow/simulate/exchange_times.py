"""When tokens travel to their experts and back inside the actions of a plan, for pictures and traces of it.

forward     head, then each layer: attention, dispatch, MLP, combine
backward    what is computed again, tail, then each layer from the last on: combine, MLP, dispatch, attention
pair        the same of both, layer by layer in windows (see `evenflow.model.halves`), then the rest of the longer
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from evenflow.model import EndBlock, Layer, Network, PassHalves, Plan, exchange_spans, released_spans, saved_ns
from evenflow.schedule import Schedule
from evenflow.simulate.costs import StageCosts, network_of_units

FORWARD, BACKWARD = "forward", "backward"
_NOTHING = PassHalves()


class ExchangeSpan(NamedTuple):
    """An exchange, from the begin of its action on."""

    start_ns: int
    end_ns: int
    name: str
    """Such as ``dispatch``."""
    direction: str
    """Whether it is of a forward or a backward."""
    layer: int
    """Number of its layer in the network."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ExchangeTimes:
    """The exchanges inside each action of a plan; those that take no time are left out.

    Of a backward that is split, they stand in the input gradient, between parts that are as much shorter.
    """

    schedule: Schedule
    costs: StageCosts
    networks: tuple[Network, ...]
    """What a unit of work runs, for each rank at its speed."""
    firsts: tuple[int, ...]
    """First layer of every stage, and the end of the last."""
    releases_attention: bool = False
    """Whether attention goes backward as early as it can beside a forward."""

    @classmethod
    def of(cls, network: Network, plan: Plan, schedule: Schedule, costs: StageCosts) -> "ExchangeTimes | None":
        """Return the exchanges of a plan; None where layers exchange nothing that is known."""
        units = network_of_units(network, schedule)
        units = units.without_delays() if plan.delays_weights is False else units
        if not units.exchanges_tokens:
            return None
        firsts = [0]
        for chunk, rank in zip(schedule.stage_chunks.tolist(), schedule.stage_ranks, strict=True):
            firsts.append(firsts[-1] + plan.layers[chunk][rank])
        at_speed = {speed: units.at_speed(speed) for speed in units.speeds}
        networks = tuple(at_speed[units.speed_of(rank)] for rank in range(schedule.num_ranks))
        return cls(
            schedule=schedule,
            costs=costs,
            networks=networks,
            firsts=tuple(firsts),
            releases_attention=plan.releases_attention,
        )

    def of_forward(self, stage: int) -> list[ExchangeSpan]:
        """Return those of a forward."""
        return list(self._ahead(self._layers(stage), self._end(stage, is_head=True).forward_ns))

    def of_backward(self, stage: int, *, is_split: bool = False) -> list[ExchangeSpan]:
        """Return those of a backward, or with `is_split` of an input gradient."""
        again_ns = int(self.costs.recompute_ns[stage])
        begin_ns = again_ns + self._end(stage, is_head=False).backward_ns
        spans = list(self._back(self._layers(stage)[::-1], begin_ns))
        if not is_split:
            return spans
        exchanged_ns = sum(span.end_ns - span.start_ns for span in spans)
        computed_ns = int(self.costs.backward_ns[stage]) - again_ns - exchanged_ns
        share = max(0.0, 1 - int(self.costs.weight_ns[stage]) / max(computed_ns, 1))
        moved, passed_ns = [], 0
        for span in spans:
            length_ns = span.end_ns - span.start_ns
            start_ns = again_ns + passed_ns + int(share * (span.start_ns - again_ns - passed_ns))
            moved.append(span._replace(start_ns=start_ns, end_ns=start_ns + length_ns))
            passed_ns += length_ns
        return moved

    def of_pair(self, forward: int, backward: int) -> list[ExchangeSpan]:
        """Return those of a forward of one stage beside a backward of another of the same rank."""
        ahead, back = self._layers(forward), self._layers(backward)[::-1]
        slowdown = self._network(forward).pair_slowdown
        at_ns = int(self.costs.recompute_ns[backward])
        at_ns += self._end(forward, is_head=True).forward_ns + self._end(backward, is_head=False).backward_ns
        spans: list[ExchangeSpan] = []
        for (number, layer), (other_number, other) in zip(ahead, back, strict=False):
            if layer.halves is None or other.halves is None:  # one after the other
                spans += self._back([(other_number, other)], at_ns)
                spans += self._ahead([(number, layer)], at_ns + other.backward_ns)
                at_ns += layer.forward_ns + other.backward_ns
                continue
            parts = layer.halves.forward, layer.forward_ns, other.halves.backward, other.backward_ns
            spans_of, saving = exchange_spans, parts
            if self.releases_attention:
                ahead_halves, back_halves = layer.halves.releasing().forward, other.halves.releasing().backward
                spans_of, saving = released_spans, (ahead_halves, layer.forward_ns, back_halves, other.backward_ns)
            names = ("combine", BACKWARD), ("dispatch", FORWARD), ("dispatch", BACKWARD), ("combine", FORWARD)
            for (name, direction), (start_ns, end_ns) in zip(names, spans_of(*parts, slowdown=slowdown), strict=True):
                of_layer = number if direction == FORWARD else other_number
                spans += _span(at_ns + start_ns, end_ns - start_ns, name, direction, of_layer)
            at_ns += layer.forward_ns + other.backward_ns - saved_ns(*saving, slowdown=slowdown)
        paired = min(len(ahead), len(back))
        spans += self._ahead(ahead[paired:], at_ns)
        spans += self._back(back[paired:], at_ns)
        return spans

    def _network(self, stage: int) -> Network:
        return self.networks[self.schedule.stage_ranks[stage]]

    def _layers(self, stage: int) -> list[tuple[int, Layer]]:
        """Return the layers of a stage with their numbers."""
        numbers = range(self.firsts[stage], self.firsts[stage + 1])
        layers = self._network(stage).layers
        return [(number, layers[number]) for number in numbers]

    def _end(self, stage: int, *, is_head: bool) -> EndBlock:
        """Return the head or the tail of the network where a stage has it, else nothing."""
        network = self._network(stage)
        if stage != (0 if is_head else self.schedule.num_stages - 1):
            return EndBlock(name="")
        return network.head if is_head else network.tail

    @staticmethod
    def _ahead(layers: list[tuple[int, Layer]], at_ns: int) -> Iterator[ExchangeSpan]:
        """Yield the exchanges of forwards of layers, one after the other."""
        for number, layer in layers:
            half = _NOTHING if layer.halves is None else layer.halves.forward
            sent_ns = at_ns + layer.forward_ns - half.total_ns
            at_ns += layer.forward_ns
            yield from _span(sent_ns, half.dispatch_ns, "dispatch", FORWARD, number)
            yield from _span(at_ns - half.combine_ns, half.combine_ns, "combine", FORWARD, number)

    @staticmethod
    def _back(layers: list[tuple[int, Layer]], at_ns: int) -> Iterator[ExchangeSpan]:
        """Yield the exchanges of backwards of layers, one after the other."""
        for number, layer in layers:
            half = _NOTHING if layer.halves is None else layer.halves.backward
            yield from _span(at_ns, half.combine_ns, "combine", BACKWARD, number)
            yield from _span(at_ns + half.combine_ns + half.mlp_ns, half.dispatch_ns, "dispatch", BACKWARD, number)
            at_ns += layer.backward_ns


def _span(start_ns: int, length_ns: int, name: str, direction: str, layer: int) -> Iterator[ExchangeSpan]:
    if length_ns:
        yield ExchangeSpan(start_ns, start_ns + length_ns, name, direction, layer)
