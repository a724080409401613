"""Forwards that run beside backwards: where that saves time, and what it cannot go together with."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from math import ceil

import numpy as np

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Communication, Layer, Network, Plan
from evenflow.schedule import FAMILIES, Schedule
from evenflow.simulate.costs import Integers, layer_sums, network_of_units


def check_pairs(schedule: Schedule, network: Network, communication: Communication | None) -> None:
    """Raise InputError where forwards run beside backwards and what else happens then is not known."""
    if not schedule.has_pairs:
        return
    for rule, remedy in _conflicts(network, communication):
        raise InputError(value=schedule.name, rule=rule, place=_("schedule {name}", name=schedule.name), remedy=remedy)


def compared_families(network: Network, communication: Communication | None) -> tuple[str, ...]:
    """Return the families to compare for a network: those with pairs only where pairs can be, and save time."""
    saves = pairs_save(network, communication)
    return tuple(
        name for name, family in FAMILIES.items() if not family.comparison_only and (saves or not family.has_pairs)
    )


def pairs_save(network: Network, communication: Communication | None) -> bool:
    """Return whether forwards can run beside backwards, and save time there."""
    return network.exchanges_tokens and not any(_conflicts(network, communication))


def release_saves(network: Network, kinds: Collection[str]) -> bool:
    """Return whether pairs may hold less where attention goes backward before the MLP beside it goes forward.

    Layers may be under any of `kinds`. That takes a forward whose MLP keeps more than the one that goes backward beside
    it: where all keep as much, the fullest moment is while that MLP goes backward.
    """
    sizes = {run.layer.modes[kind].mlp_bytes for run in network.runs for kind in kinds}
    return network.exchanges_tokens and len(sizes) > 1


def _conflicts(network: Network, communication: Communication | None) -> Iterator[tuple[str, str]]:
    """Yield why forwards may not run beside backwards, each time with what can be done."""
    if network.offloads:
        yield (
            _("must not run forwards beside backwards while activations move to the host"),
            _("leave out the recompute kinds that move any"),
        )
    if communication is not None and communication.one_at_a_time:
        yield (
            _("must not run forwards beside backwards where a rank sends one message at a time"),
            _("leave out {option}", option="--p2p-exclusive"),
        )
    if any(not layer.cut_before for layer in network.layers[1:]):
        yield (
            _("must not run forwards beside backwards where layers stay together, since they pair one by one"),
            _("take another schedule"),
        )


def exchanged_ns(network: Network, plan: Plan, schedule: Schedule) -> Integers:
    """Return how long the layers of every rank exchange tokens in a step, beside other work or not, [num_ranks]."""
    units = network_of_units(network, schedule)
    until_ns = {speed: _exchanged_until_ns(units.at_speed(speed)) for speed in units.speeds}
    sizes = np.empty(schedule.num_stages, dtype=np.int64)
    sizes[schedule.stage_table] = np.array(plan.layers)
    ends = np.cumsum(sizes)
    exchanged = np.zeros(schedule.num_ranks, dtype=np.int64)
    for rank, own in enumerate(schedule.stage_table.T):
        until = until_ns[units.speed_of(rank)]
        exchanged[rank] = schedule.num_units * (until[ends[own]] - until[ends[own] - sizes[own]]).sum()
    return exchanged


def _exchanged_until_ns(network: Network) -> Integers:
    """Return prefix sums of the exchanges of layers in both passes, shape [num_layers + 1]."""
    halves = [layer.halves for layer in network.layers]
    each = [0 if half is None else half.forward.exchange_ns + half.backward.exchange_ns for half in halves]
    return np.concatenate(([0], np.cumsum(np.array(each, dtype=np.int64))))


def at_best_in_pairs(network: Network) -> Network:
    """Return the network as if every backward ran beside the forward beside which it saves most.

    No plan is shorter than it is for this network, whatever runs beside what.
    """
    saved: dict[int, int] = {}
    for speed in (1.0, *network.speeds):
        slow = network.at_speed(speed)
        table = layer_sums(slow, slower={}).halves
        if table is None:
            return network
        for place, saved_ns in enumerate(table.most_saved_ns.tolist()):
            # Times of slower ranks are rounded, each by itself.
            whole_ns = saved_ns if speed == 1 else ceil((saved_ns + 1) * speed)
            saved[place] = max(saved.get(place, 0), whole_ns)
    place, runs = 0, []
    for run in network.runs:
        runs.append(replace(run, layer=_shorter(run.layer, saved[place])))
        place += run.count
    return replace(network, runs=tuple(runs))


def _shorter(layer: Layer, saved_ns: int) -> Layer:
    """Return the layer with backwards that take so much less."""
    saved_ns = min(saved_ns, layer.backward_ns)
    modes = {kind: replace(mode, backward_ns=mode.backward_ns - saved_ns) for kind, mode in layer.modes.items()}
    weight_ns = min(layer.weight_ns, layer.backward_ns - saved_ns)
    return replace(layer, modes=modes, stated_weight_ns=weight_ns, halves=None)
