"""What stages may hold, and what that costs: counted anew from the costs of layers."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evenflow.language import _
from evenflow.verify.certificate import BlockCosts, Certificate, CertificateError
from evenflow.verify.order import OrderOfWork, Table

Choice = tuple[int, int, int]
"""Backward in ns, activation and working memory in bytes, of some layers under kinds that recompute."""
FROM, TO, FORWARD, WEIGHT, WAITING, PARAMETERS, BACKWARD, ACTIVATION, WORKING = range(9)
"""Places where a stage takes up the network and leaves it, then what it costs."""
_FIXED = ("forward_ns", "weight_ns", "until_weight_bytes", "parameter_bytes")


def times_of(rows: Table) -> Table:
    """Return the times of F, B, I and W, [num_contents, 4]."""
    forward, backward, weight = rows[:, [FORWARD, BACKWARD, WEIGHT]].T
    return np.stack((forward, backward, backward - weight, weight), axis=1)


class Contents(NamedTuple):
    """All that one stage may hold, by the place where it takes up the network, then by the span of its layers.

    Those of a span are in order of their backwards.
    """

    rows: Table
    """Shape [num_contents, 9]."""
    spans: Table
    """First row of every span and the end of all."""
    spans_of_place: Table
    """First span of every place and the end of all."""
    loads: Table
    """Forward and backward of each, [num_contents]."""


def contents_of(rows: Table, num_places: int) -> Contents:
    """Return the contents with these rows."""
    table = rows[np.lexsort((rows[:, BACKWARD], rows[:, TO], rows[:, FROM]))]
    starts = np.append(True, (table[1:, :2] != table[:-1, :2]).any(axis=1))[: len(table)]
    spans, places = np.flatnonzero(starts), np.arange(num_places + 1)
    of_place, loads = np.searchsorted(table[spans, FROM], places), table[:, FORWARD] + table[:, BACKWARD]
    return Contents(table, np.append(spans, len(table)), of_place, loads)


class Costs:
    """The costs of a problem, and what its stages may hold."""

    def __init__(self, certificate: Certificate, order: OrderOfWork) -> None:
        """Check what the costs say of each other; raises CertificateError."""
        self.certificate, self.order = certificate, order
        self.num_layers, types = len(certificate.networks[0].layers), certificate.types
        blocks = [block for own in certificate.networks for block in (own.head, own.tail)]
        if not (
            all(len(own.kinds) == len(certificate.kinds) and own.weight_ns <= min(own.kinds)[0] for own in types)
            and all(len(own.layers) == self.num_layers for own in certificate.networks)
            and all(own == sorted(set(own)) for own in certificate.kind_sets)
            and all(block.weight_ns <= block.backward_ns for block in blocks)
        ):
            raise CertificateError(_("networks: layers, types and kinds do not go together"))
        self._networks = [certificate.networks[certificate.ranks[rank].network] for rank in order.ranks]
        fixed = [[[getattr(types[layer], name) for name in _FIXED] for layer in own.layers] for own in self._networks]
        self._sums = [np.cumsum([[0] * len(_FIXED), *own], axis=0) for own in fixed]
        self._best: dict[tuple[int, ...], list[Choice]] = {}
        self._known: dict[tuple[tuple[int, ...], tuple[int, ...]], list[list[Choice]]] = {}

    def blocks(self, stage: int) -> list[BlockCosts]:
        """Return head or tail, where a stage has them."""
        network = self._networks[stage]
        return [network.head] * (stage == 0) + [network.tail] * (stage == self.order.num_stages - 1)

    def content(self, stage: int, first: int, end: int, choices: Sequence[Choice]) -> Table:
        """Return what a stage costs with the layers [first, end), a row for each choice of their kinds."""
        sums, rows = self._sums[stage], np.empty((len(choices), 9), dtype=np.int64)
        rows[:, [FROM, TO]] = first, end
        rows[:, FORWARD:BACKWARD] = sums[end] - sums[first]
        rows[:, BACKWARD:] = choices
        for block in self.blocks(stage):
            for column, name in enumerate((*_FIXED, "backward_ns", "activation_bytes"), FORWARD):
                rows[:, column] += getattr(block, name)
            rows[:, WORKING] = np.maximum(rows[:, WORKING], block.working_bytes)
        return rows

    def of_plan(self, layers: Sequence[Sequence[int]]) -> Table:
        """Return what every stage of a plan costs, [num_stages, 9]; raises CertificateError where it may not be so."""
        rows, first = [], 0
        for stage, (counts, (fewest, most)) in enumerate(zip(layers, self.certificate.stage_layers, strict=True)):
            kinds = [kind for kind, count in enumerate(counts) for _layer in range(count)]
            end = first + len(kinds)
            may = any(set(kinds) <= set(allowed) for allowed in self.certificate.kind_sets)
            has_kinds = len(counts) == len(self.certificate.kinds)
            if not (has_kinds and may and fewest <= len(kinds) <= most and end <= self.num_layers):
                raise CertificateError(_("claim: stage {stage} may not have these layers", stage=stage))
            own = self._networks[stage].layers[first:end]
            costs = [self.certificate.types[layer].kinds[kind] for layer, kind in zip(own, kinds, strict=True)]
            backward, activation, working = zip((0, 0, 0), *costs, strict=True)
            rows.append(self.content(stage, first, end, [(sum(backward), sum(activation), max(working))]))
            first = end
        if first != self.num_layers:
            raise CertificateError(_("claim: the plan must have all layers"))
        return np.concatenate(rows)

    def peak_bytes(self, rank: int, rows: Table) -> int:
        """Return the most that a rank ever holds, given what all stages cost."""
        stages = [stage for stage, own in enumerate(self.order.ranks) if own == rank]
        held = self.order.live(rank, stages) @ rows[stages][:, [ACTIVATION, WAITING]].T.ravel()
        constant = self.certificate.ranks[rank].constant_bytes
        return int(constant + rows[stages, PARAMETERS].sum() + held.max() + rows[stages, WORKING].max())

    def contents(self, stage: int, *, turned: bool, most_ns: int) -> Contents:
        """Return what a stage may hold that takes at most `most_ns`, but for what is never better than another.

        A content goes if one with the same layers has no longer backward, and needs no more of either memory. A stage
        that is `turned` takes up the network at the end of its layers.
        """
        types, (fewest, most) = self._networks[stage].layers, self.certificate.stage_layers[stage]
        rows = [np.empty((0, 9), dtype=np.int64)]
        for first in range(self.num_layers + 1):
            for end in range(first + fewest, min(first + most, self.num_layers) + 1):
                own = self.content(stage, first, end, self._best_of_sets(tuple(types[first:end])))
                own = own[own[:, FORWARD] + own[:, BACKWARD] <= most_ns]
                if not len(own):
                    break
                rows.append(own[:, [TO, FROM, *range(FORWARD, 9)]] if turned else own)
        return contents_of(np.concatenate(rows), self.num_layers + 1)

    def _best_of_sets(self, layers: tuple[int, ...]) -> list[Choice]:
        """Return what these layers cost under kinds that may share a stage, but for what is never better."""
        if layers not in self._best:
            sets = [tuple(kinds) for kinds in self.certificate.kind_sets]
            self._best[layers] = _best([choice for kinds in sets for choice in self._choices(layers, kinds)])
        return self._best[layers]

    def _choices(self, layers: tuple[int, ...], kinds: tuple[int, ...]) -> list[Choice]:
        """Return what these layers cost under some kinds, in their order, but for what is never better."""
        for end in range(len(layers) + 1):
            if (layers[:end], kinds) in self._known:
                continue
            table: list[list[Choice]] = []  # by the position of the last layer's kind, or of an earlier one
            for position, kind in enumerate(kinds):
                choices = list(table[-1]) if table else [] if end else [(0, 0, 0)]
                if end:
                    backward, activation, working = self.certificate.types[layers[end - 1]].kinds[kind]
                    choices += [
                        (time + backward, kept + activation, max(needed, working))
                        for time, kept, needed in self._known[layers[: end - 1], kinds][position]
                    ]
                table.append(_best(choices))
            self._known[layers[:end], kinds] = table
        return self._known[layers, kinds][-1]

    def least_ns(self) -> Table:
        """Return the least time of the layers before every place, forward and gradient and both, [num_places, 3]."""
        types, least = self.certificate.types, []
        for position in range(self.num_layers):
            own = [types[network.layers[position]] for network in self.certificate.networks]
            gradient = min(min(each.kinds)[0] - each.weight_ns for each in own)
            whole = min(each.forward_ns + min(each.kinds)[0] for each in own)
            least.append((min(each.forward_ns for each in own), gradient, whole))
        return np.cumsum([(0, 0, 0), *least], axis=0)


def _best(choices: list[Choice]) -> list[Choice]:
    """Return the choices that none beats in time and both kinds of memory, shortest first."""
    kept: list[Choice] = []
    for choice in sorted(choices):
        if not any(own[1] <= choice[1] and own[2] <= choice[2] for own in kept):
            kept.append(choice)
    return kept
