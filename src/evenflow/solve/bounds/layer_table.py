"""A network as the arrays that bounds read."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from evenflow.model import FULL, EndBlock, Layer, LayerRun, Request

_NO_LIMIT = 1e30


class LayerTable(NamedTuple):
    """Layers of a few types, their numbers in order, and the ways to recompute them."""

    counts: Any
    """Layers of each type before each place, shape [num_types, num_layers + 1]."""
    times: Any
    """Forward, gradient, weight gradient; the gradient is the whole backward unless that is split; [num_types, 3]."""
    parameters: Any
    """Bytes of each type."""
    until_weight: Any
    """Bytes of each type until its weight gradient; 0 where backwards are not split."""
    working: Any
    """Largest working memory of a selection of kinds: a rank is under one of these selections; [num_selections]."""
    activations: Any
    """Bytes of the kind that takes least time, infinite where a type has no kind; [num_selections, num_types]."""
    extra: Any
    """Recomputation of that kind, infinite likewise; [num_selections, num_types]."""
    steps: Any
    """What each further step of recomputation saves in bytes and takes in time, the cheapest first;
    [num_selections, num_types, num_steps, 2]."""
    ends: Any
    """Of head and tail forward, gradient, weight gradient, parameters, activation, until weight, working; [2, 7]."""
    constant: float
    limit: float
    full: Any
    """Recomputation of a layer under `full`, of each type the least; [num_types]."""
    longest_full: float
    """The most that any layer recomputes under `full`."""
    full_range: Any
    """The least and the most layers of a cell under `full`; [2]."""


@dataclass(frozen=True, slots=True)
class _Type:
    """A type of layers: its modes are pairs of recomputation and activation, by working memory."""

    times: tuple[int, int, int]
    parameters: int
    until_weight: int
    modes: tuple[tuple[int, int, int], ...]
    """Recomputation, activation and working memory of every kind."""


def layer_table(request: Request, *, splits_backward: bool, most_types: int | None = None) -> LayerTable:
    """Return the layers of a request; of more than `most_types`, the rarest are one that costs the least of each."""
    network, rule = request.network, request.cell_rule
    kinds = [network.kinds[index] for index in sorted(set().union(*rule.families(network.kinds)))]
    types: list[_Type] = []
    of_run = []
    for run in network.runs:
        layer_type = _type(run.layer, kinds, splits_backward)
        if layer_type not in types:
            types.append(layer_type)
        of_run.append(types.index(layer_type))
    types, of_run = _merged(types, of_run, network.runs, most_types)
    numbers = np.repeat(of_run, [run.count for run in network.runs])
    counts = np.zeros((len(types), len(numbers) + 1))
    for index in range(len(types)):
        counts[index, 1:] = np.cumsum(numbers == index)
    limit = request.memory_limit_bytes if network.has_memory else None
    selections = (
        sorted({mode[2] for layer_type in types for mode in layer_type.modes}) if limit is not None else [_NO_LIMIT]
    )
    hulls = [[_hull(layer_type, most) for layer_type in types] for most in selections]
    longest = max(len(hull) for row in hulls for hull in row)
    steps = np.zeros((len(hulls), len(types), max(1, longest - 1), 2))
    first = np.full((len(hulls), len(types), 2), np.inf)
    for row, of_types in enumerate(hulls):
        for column, hull in enumerate(of_types):
            if hull:
                first[row, column] = hull[0]
            for place in range(1, len(hull)):
                steps[row, column, place - 1] = (
                    hull[place - 1][1] - hull[place][1], hull[place][0] - hull[place - 1][0]
                )  # fmt: skip
    return LayerTable(
        counts=counts,
        times=np.array([layer_type.times for layer_type in types], dtype=float),
        parameters=np.array([layer_type.parameters for layer_type in types], dtype=float),
        until_weight=np.array([layer_type.until_weight for layer_type in types], dtype=float),
        working=np.array([0.0 if limit is None else most for most in selections], dtype=float),
        activations=first[:, :, 1].copy(),
        extra=first[:, :, 0].copy(),
        steps=steps,
        ends=np.array([_end(block, splits_backward) for block in (network.head, network.tail)]),
        constant=float(network.constant_bytes),
        limit=_NO_LIMIT if limit is None else float(limit),
        full=np.array([_full_ns(layer_type, kinds) for layer_type in types]),
        longest_full=float(max(run.layer.recompute_ns(FULL) for run in network.runs)) if FULL in kinds else 0.0,
        full_range=_full_range(rule.full if FULL in kinds else None),
    )


def _full_ns(layer_type: _Type, kinds: list[str]) -> float:
    return float(layer_type.modes[kinds.index(FULL)][0]) if FULL in kinds else 0.0


def _full_range(full: tuple[int, int | None] | None) -> Any:
    least, most = full or (0, None)
    return np.array([least, np.inf if most is None else most], dtype=float)


def _type(layer: Layer, kinds: list[str], splits: bool) -> _Type:
    weight = layer.weight_ns if splits else 0
    return _Type(
        times=(layer.forward_ns, layer.backward_ns - weight, weight),
        parameters=layer.parameter_bytes,
        until_weight=layer.until_weight_bytes if splits else 0,
        modes=tuple(
            (layer.recompute_ns(kind), layer.modes[kind].activation_bytes, layer.modes[kind].working_bytes)
            for kind in kinds
        ),
    )


def _merged(
    types: list[_Type], of_run: list[int], runs: tuple[LayerRun, ...], most: int | None
) -> tuple[list[_Type], list[int]]:
    """Return at most so many types, the most frequent first."""
    numbers = [
        sum(run.count for run, index in zip(runs, of_run, strict=True) if index == number)
        for number in range(len(types))
    ]
    ranked = sorted(range(len(types)), key=lambda number: -numbers[number])
    kept = ranked if most is None else ranked[:most]
    others = [types[number] for number in ranked[len(kept) - 1 :]]
    merged = [types[number] for number in kept[:-1]] + [_least(others)]
    return merged, [min(ranked.index(index), len(kept) - 1) for index in of_run]


def _least(types: list[_Type]) -> _Type:
    """Return a type that is no more than any of these."""
    forward, gradient, weight = (min(layer_type.times[place] for layer_type in types) for place in range(3))
    return _Type(
        times=(forward, gradient, weight),
        parameters=min(layer_type.parameters for layer_type in types),
        until_weight=min(layer_type.until_weight for layer_type in types),
        modes=tuple(
            (min(mode[0] for mode in every), min(mode[1] for mode in every), min(mode[2] for mode in every))
            for every in zip(*(layer_type.modes for layer_type in types), strict=True)
        ),
    )


def _hull(layer_type: _Type, most_working: float) -> list[tuple[int, int]]:
    """Return the lower hull of recomputation and activation of the kinds with at most so much working memory."""
    hull: list[tuple[int, int]] = []
    for extra, activation, working in sorted(layer_type.modes):
        if working > most_working or (hull and activation >= hull[-1][1]):
            continue
        while len(hull) > 1 and _is_above(hull[-2], hull[-1], (extra, activation)):
            hull.pop()
        hull.append((extra, activation))
    return hull


def _is_above(first: tuple[int, int], middle: tuple[int, int], last: tuple[int, int]) -> bool:
    """Return whether a mixture of the outer two saves as much as the middle one for no more time."""
    return (middle[0] - first[0]) * (first[1] - last[1]) >= (last[0] - first[0]) * (first[1] - middle[1])


def _end(block: EndBlock, splits: bool) -> list[float]:
    weight = block.weight_ns if splits else 0
    waiting = block.until_weight_bytes if splits else 0
    times = [block.forward_ns, block.backward_ns - weight, weight]
    return [
        float(amount)
        for amount in (*times, block.parameter_bytes, block.activation_bytes, waiting, block.working_bytes)
    ]
