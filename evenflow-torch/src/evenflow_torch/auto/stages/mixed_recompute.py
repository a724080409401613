"""Adds stages whose first layers have one recompute kind and whose last ones another, for short memory.

A stage that does not fit as it is need not recompute all of its layers: so many as make room are enough. For every two
kinds, in the order of a cell, and every place where the second begins,

    time, activations = those of the first kind up to the place + those of the second from there on

and of all of them those are options that are fastest for some number of microbatches in flight. By linear
programming two kinds come within a layer of the best that any mixture has for one limit and equal layers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evenflow.cluster import Submesh
from evenflow.simulate import layer_sums
from evenflow_torch.auto.sharding.ways import MeshSharding
from evenflow_torch.auto.stages.in_flight import Integers, last_positions
from evenflow_torch.auto.stages.stage_provider import StageCost, StageProvider


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sums:
    """Prefix sums over layers, as in `LayerSums`, for every sharding on a submesh."""

    kinds: tuple[str, ...]
    backward_ns: Integers
    """Shape [num_shardings, num_kinds, L + 1], like activations."""
    activation_bytes: Integers
    working_bytes: Integers
    """Shape [num_shardings, num_kinds, L]."""
    ends_working_bytes: Integers
    """Working memory of head and tail, shape [num_shardings, 2]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mixtures:
    """Layers [first, end) under all mixtures of two kinds, shape [num_shardings, num_pairs, places to begin]."""

    cost_ns: Integers
    static_bytes: Integers
    activation_bytes: Integers
    pairs: tuple[tuple[str, str], ...]
    last: Sequence[StageCost]
    """The stage under the last kind alone, by sharding."""

    def option(self, place: int) -> StageCost:
        """Return the mixture at an index into the flattened tables."""
        sharding, pair, cut = (int(at) for at in np.unravel_index(place, self.cost_ns.shape))
        whole, (before, after) = self.last[sharding], self.pairs[pair]
        return replace(
            whole,
            backward_ns=int(self.cost_ns.flat[place]) - whole.forward_ns,
            static_bytes=int(self.static_bytes.flat[place]),
            activation_bytes=int(self.activation_bytes.flat[place]),
            recompute=before,
            rest=(after, self.cost_ns.shape[2] - cut),
        )


def _mixtures(sums: _Sums, first: int, end: int, last: Sequence[StageCost]) -> _Mixtures:
    """Return all mixtures; forwards, parameters and ends cost what they do under the last kind alone."""
    before, after = np.triu_indices(len(sums.kinds), 1)
    cuts = np.arange(first + 1, end)

    def mixed(table: Integers, whole: Sequence[int]) -> Integers:
        heads = table[:, before][:, :, cuts] - table[:, before, first, None]
        tails = table[:, after, end, None] - table[:, after][:, :, cuts]
        others = np.array(whole) - (table[:, -1, end] - table[:, -1, first])
        mixture: Integers = heads + tails + others[:, None, None]
        return mixture

    work = sums.working_bytes[:, :, first:end]
    upto, since = np.maximum.accumulate(work, axis=2), np.maximum.accumulate(work[:, :, ::-1], axis=2)[:, :, ::-1]
    num_layers = sums.working_bytes.shape[2]
    ends = (sums.ends_working_bytes * [first == 0, end == num_layers]).max(axis=1)
    working = np.maximum(upto[:, before, :-1], since[:, after, 1:])
    parameters = np.array([option.static_bytes for option in last]) - np.maximum(work[:, -1].max(axis=1), ends)
    return _Mixtures(
        cost_ns=mixed(sums.backward_ns, [option.cost_ns for option in last]),
        static_bytes=parameters[:, None, None] + np.maximum(working, ends[:, None, None]),
        activation_bytes=mixed(sums.activation_bytes, [option.activation_bytes for option in last]),
        pairs=tuple((sums.kinds[i], sums.kinds[j]) for i, j in zip(before, after, strict=True)),
        last=last,
    )


@dataclass(frozen=True, kw_only=True)
class MixedRecompute:
    """Finds the mixtures of two recompute kinds that improve on a provider's stages."""

    provider: StageProvider
    memory_limit_bytes: int
    in_flight: Sequence[int]
    """Microbatches that a stage holds, by its position counted from the end; never falls."""
    _sums: dict[tuple[Submesh, tuple[MeshSharding, ...]], _Sums] = field(default_factory=dict, init=False, repr=False)

    def options(self, first: int, end: int, submesh: Submesh, pure: Sequence[StageCost]) -> list[StageCost]:
        """Return the mixtures that beat all options with one kind, `pure`, for some number in flight."""
        live = self._live(end - first, submesh)
        times = np.array([option.cost_ns for option in pure], dtype=np.int64)
        fits = last_positions(
            np.array([option.static_bytes for option in pure]),
            np.array([option.activation_bytes for option in pure]),
            live,
            self.memory_limit_bytes,
        )
        if end - first < 2 or not len(pure) or fits[times.argmin()] == len(live):
            return []
        sums = self._sums_of(submesh, tuple(dict.fromkeys(option.sharding for option in pure)))
        last = [option for option in pure if option.recompute == sums.kinds[-1]]
        mixtures = _mixtures(sums, first, end, last)
        known = np.full(len(live) + 1, np.iinfo(np.int64).max)
        np.minimum.at(known, fits, times)
        known = np.minimum.accumulate(known[::-1])[::-1]
        fits = last_positions(mixtures.static_bytes, mixtures.activation_bytes, live, self.memory_limit_bytes)
        better = np.flatnonzero((fits > 0) & (mixtures.cost_ns < known[fits]))
        better = better[np.lexsort((-fits.flat[better], mixtures.cost_ns.flat[better]))]  # fastest first
        reach, options = 0, []
        for place, fit in zip(better.tolist(), fits.flat[better].tolist(), strict=True):
            if fit > reach:  # no faster one fits with so many microbatches
                reach = fit
                options.append(mixtures.option(place))
        return options

    def _live(self, num_layers: int, submesh: Submesh) -> Integers:
        """Return the microbatches in flight at each position a stage can have; stages behind it need layers too."""
        behind = min(
            len(self.provider.kinds) - num_layers,
            self.provider.cluster.num_devices - submesh.num_devices,
        )
        return np.asarray(self.in_flight[1 : behind + 2], dtype=np.int64)

    def _sums_of(self, submesh: Submesh, shardings: tuple[MeshSharding, ...]) -> _Sums:
        if (submesh, shardings) not in self._sums:
            networks = [self.provider.network_on(submesh, sharding) for sharding in shardings]
            sums = [layer_sums(network) for network in networks]
            self._sums[submesh, shardings] = _Sums(
                kinds=sums[0].kinds,
                backward_ns=np.stack([layers.backward_ns for layers in sums]),
                activation_bytes=np.stack([layers.activation_bytes for layers in sums]),
                working_bytes=np.stack([layers.working_bytes for layers in sums]),
                ends_working_bytes=np.array(
                    [[network.head.working_bytes, network.tail.working_bytes] for network in networks]
                ),
            )
        return self._sums[submesh, shardings]
