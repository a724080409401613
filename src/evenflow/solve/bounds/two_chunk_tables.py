"""What `two_chunk_kernel` reads: for each weighing of time against memory, prefix sums over the layers."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenflow.simulate import layer_sums
from evenflow.solve.bounds.any_order_bound import AnyPlan

Values = NDArray[np.float64]
_MOST_PRICES = 6
"""Most prices of a byte that are tried on either side of a step."""
_SHARES = (0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.9)
"""Shares of time when it is weighed against bytes times time."""
_NUM_LIVES = 17
"""Number of times for which an activation is held between which is interpolated."""
_FIT_PRICES = 16
_LOWEST_FIT, _HIGHEST_FIT = 0.3, 1e3
"""Number and range of prices, as multiples of the largest recomputation over the largest activation."""


class Weighings(NamedTuple):
    """Sums of least costs of layers, each under its cheapest kind, for pairs of prices of a byte.

    A price is for the bytes that are held when the first gradient begins, and one for those when the last forward ends.
    A layer counts its forwards, or as much as what they hold costs; its gradients likewise.
    """

    sums: Any
    """Prefix sums, shape [2, num_pairs, 4, num_layers + 1]: of all jobs, then of what a layer of the first chunk holds
    beside the jobs of the second; the third index is twice whether forwards are held, plus whether gradients are."""
    ends: Any
    """The same of head and tail, shape [2, num_pairs, 4, 2]."""
    rooms: Any
    """What the room costs, to be taken off, shape [num_pairs]."""
    prices: Any
    """Whether there is a price on each side, shape [num_pairs, 2]."""


class TwoChunkTables(NamedTuple):
    """The network of a bound for two chunks; times in ns, sizes in bytes."""

    forward: Any
    gradient: Any
    weight: Any
    """Prefix sums over layers, without recomputation; the gradient is all of the backward that others wait for."""
    ends: Any
    """Of head and tail: forward, gradient and weight gradient, shape [2, 3]."""
    parameters: Any
    end_parameters: Any
    """Prefix sums, and of head and tail."""
    least: Any
    end_least: Any
    """Likewise the least activation."""
    num_units: float
    space: float
    """Memory limit without what every rank has; infinite without a limit."""
    splits: bool
    pairs: Weighings
    shares: Any
    lives: Any
    held: Any
    """Prefix sums of time weighed against bytes times time, shape [2, num_shares, num_lives, num_layers + 1]; the
    second of the two has what waits for weight gradients too."""
    held_ends: Any
    fit_prices: Any
    fits: Any
    fit_ends: Any
    """Recomputation plus a price times the activation, prefix sums by price, and of head and tail."""
    full: Any
    full_ends: Any
    full_prices: Any
    """Gradients plus a price times the activation of all microbatches, prefix sums by price, and of head and tail."""


def two_chunk_tables(plans: AnyPlan) -> TwoChunkTables:
    """Return the tables of the network of `plans`, which have two chunks."""
    network, limit = plans.network, plans.memory_limit_bytes
    sums, ends = layer_sums(network), (network.head, network.tail)
    num_units, may_split = plans.num_units, plans.may_split
    space = None if limit is None else limit - network.constant_bytes
    size = np.diff(sums.activation_bytes, axis=1).astype(float)
    backward = np.diff(sums.backward_ns, axis=1).astype(float)
    layers = _Costs(
        forward=np.diff(sums.forward_ns).astype(float),
        backward=backward,
        weight=np.diff(sums.weight_ns).astype(float),
        size=size,
        waiting=np.diff(sums.until_weight_bytes).astype(float),
        parameters=np.diff(sums.parameter_bytes).astype(float),
        splits=may_split,
    )
    blocks = _Costs(
        forward=np.array([end.forward_ns for end in ends], dtype=float),
        backward=np.array([[end.backward_ns for end in ends]], dtype=float),
        weight=np.array([end.weight_ns for end in ends], dtype=float),
        size=np.array([[end.activation_bytes for end in ends]], dtype=float),
        waiting=np.array([end.until_weight_bytes for end in ends], dtype=float),
        parameters=np.array([end.parameter_bytes for end in ends], dtype=float),
        splits=may_split,
    )
    whole = layers.backward[-1] - (layers.weight if may_split else 0)
    end_gradient = blocks.backward[0] - (blocks.weight if may_split else 0)
    longest = float((layers.forward + whole).sum() + blocks.forward.sum() + end_gradient.sum())
    lives, room = np.linspace(0.0, max(1.0, longest), _NUM_LIVES), float(space or 1)
    extra = backward - backward[-1]
    scale = max(1.0, float(extra.max(initial=0))) / max(1.0, float(size.max(initial=0)))
    fit_prices = scale * np.geomspace(_LOWEST_FIT, _HIGHEST_FIT, _FIT_PRICES)
    ratios = np.concatenate((layers.forward / _some(size), backward / _some(size)))
    full_prices = np.concatenate(([0.0], _prices(ratios)))
    shape = (2, len(_SHARES), _NUM_LIVES)

    def held(costs: _Costs) -> Values:
        return np.stack([
            costs.held(num_units, share=share, life=life, room=room, waits=waits)
            for waits in (False, True) for share in _SHARES for life in lives
        ]).reshape(*shape, -1)  # fmt: skip

    return TwoChunkTables(
        forward=_prefix(layers.forward),
        gradient=_prefix(whole),
        weight=_prefix(layers.weight if may_split else 0 * layers.weight),
        ends=np.stack((blocks.forward, end_gradient, blocks.backward[0] - end_gradient), axis=1),
        parameters=_prefix(layers.parameters),
        end_parameters=blocks.parameters,
        least=_prefix(size.min(axis=0)),
        end_least=blocks.size[0],
        num_units=float(num_units),
        space=np.inf if space is None else float(space),
        splits=may_split,
        pairs=_weighings(layers, blocks, num_units=num_units, space=space),
        shares=np.array(_SHARES),
        lives=lives,
        held=_prefix(held(layers)),
        held_ends=held(blocks),
        fit_prices=fit_prices,
        fits=_prefix((extra + fit_prices[:, np.newaxis, np.newaxis] * size).min(axis=1)),
        fit_ends=fit_prices[:, np.newaxis] * blocks.size[0],
        full=_prefix(np.stack([layers.full(num_units, price) for price in full_prices])),
        full_ends=np.stack([blocks.full(num_units, price) for price in full_prices]),
        full_prices=full_prices,
    )


class _Costs(NamedTuple):
    """Layers or ends; what depends on the kind has the shape [num_kinds, num_layers]."""

    forward: Values
    backward: Values
    weight: Values
    size: Values
    waiting: Values
    parameters: Values
    splits: bool

    def held(self, units: int, *, share: float, life: float, room: float, waits: bool) -> Values:
        """Return `share` of the time and the rest of bytes times time over `room`, each layer at its cheapest."""
        area = life * self.size
        if waits and self.splits:
            area = area + np.minimum(self.size, self.waiting) * self.weight
        return np.asarray((units * (share * (self.forward + self.backward) + (1 - share) / room * area)).min(axis=0))

    def full(self, units: int, price: float) -> Values:
        """Return gradients, and what it costs that all microbatches are held."""
        return np.asarray((units * (self.backward + price * self.size)).min(axis=0) + price * self.parameters)

    def done(self, units: int, forward_price: float | None, gradient_price: float | None) -> Values:
        """Return what is left of all jobs, shape [4, num_layers]: where forwards, gradients or both are held."""
        rows = [
            units * (self._forwards(forward_price, held) + self._gradients(gradient_price, waits))
            for held in (False, True)
            for waits in (False, True)
        ]
        return np.stack([row.min(axis=0) for row in rows]) + self._state(forward_price, gradient_price)

    def beside(self, units: int, forward_price: float | None, gradient_price: float | None) -> Values:
        """Return what a layer of the first chunk costs beside held jobs of the second, shape [4, num_layers]."""
        rows = []
        for held in (False, True):
            for waits in (False, True):
                price = (forward_price or 0.0) * held
                # What waits only for its weight gradient in the second chunk may have left the first.
                price += 0.0 if self.splits else (gradient_price or 0.0) * waits
                rows.append(units * price * self.size.min(axis=0))
        return np.stack(rows) + self._state(forward_price, gradient_price)

    def _state(self, forward_price: float | None, gradient_price: float | None) -> Values:
        return ((forward_price or 0.0) + (gradient_price or 0.0)) * self.parameters

    def _forwards(self, price: float | None, held: bool) -> Values:
        return price * self.size if held and price is not None else self.forward + 0 * self.size

    def _gradients(self, price: float | None, waits: bool) -> Values:
        if not waits or price is None:
            return self.backward
        left = price * self.size
        if self.splits:
            weight = np.minimum(self.backward, self.weight)
            left = np.minimum(left, self.backward - np.maximum(0, weight - price * self.waiting))
        return left


def _weighings(layers: _Costs, blocks: _Costs, *, num_units: int, space: int | None) -> Weighings:
    sides: list[list[float | None]] = [[None], [None]]
    if space is not None:
        sides[0] += list(_prices(layers.forward / _some(layers.size)))
        sides[1] += list(_prices(layers.backward / _some(layers.size)))
    pairs = [(first, second) for first in sides[0] for second in sides[1]]
    return Weighings(
        sums=_prefix(
            np.stack([
                [layers.done(num_units, *pair) for pair in pairs],
                [layers.beside(num_units, *pair) for pair in pairs],
            ])
        ),
        ends=np.stack([
            [blocks.done(num_units, *pair) for pair in pairs],
            [blocks.beside(num_units, *pair) for pair in pairs],
        ]),
        rooms=np.array([((first or 0.0) + (second or 0.0)) * (space or 0) for first, second in pairs]),
        prices=np.array([[price is not None for price in pair] for pair in pairs]),
    )  # fmt: skip


def _prices(ratios: Values) -> Values:
    """Return some prices of a byte at which a job costs what it holds, and between: there a bound has its corners."""
    corners = np.unique(np.round(np.log(np.maximum(ratios.ravel(), np.finfo(float).tiny)), 6))
    prices = np.exp(np.union1d(corners, (corners[1:] + corners[:-1]) / 2))
    if len(prices) > _MOST_PRICES:
        prices = prices[np.linspace(0, len(prices) - 1, _MOST_PRICES).astype(int)]
    return np.asarray(prices)


def _some(size: Values) -> Values:
    return np.maximum(size, 1.0)


def _prefix(values: Values) -> Values:
    """Return prefix sums along the last axis, beginning with 0."""
    return np.concatenate((np.zeros((*values.shape[:-1], 1)), np.cumsum(values, axis=-1)), axis=-1)
