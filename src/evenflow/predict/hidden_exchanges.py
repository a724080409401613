"""Exchanges of tokens under the computation of other microbatches, by the windows of forwards beside backwards.

The windows are those of a layer's forward beside the backward of such a layer (see `model.halves`), so that a training
of which only the overlap is stated hides what plans with pairs hide of its layers.
"""

from collections.abc import Sequence
from dataclasses import replace

from evenflow.cluster.topology import Topology
from evenflow.model import PassHalves, saved_by_exchange
from evenflow.predict.passes import Passes
from evenflow.predict.pricing import halves_of, priced
from evenflow.predict.training import Training
from evenflow.predict.work import Exchange, Spent, Work
from evenflow.schedule import FAMILIES


def without_own_overlap(training: Training) -> Training:
    """Return the training without the overlap of exchanges where its schedule has pairs, which hide them themselves."""
    software = training.software
    if training.schedule is None or not (software.overlaps_experts and FAMILIES[training.schedule].has_pairs):
        return training
    return replace(training, software=replace(software, overlaps_experts=False))


def under_others(training: Training, topology: Topology, passes: Passes) -> Passes:
    """Return the passes of a layer with what runs of its exchanges under other microbatches, where these overlap.

    Layers that exchange tokens more than once there and back hide nothing, as in pairs.
    """
    if not training.software.overlaps_experts or passes.unkept:
        return passes
    forward, backward = halves_of(passes.forward, topology), halves_of(passes.backward, topology)
    if forward is None or backward is None or not (forward.exchange_ns and backward.exchange_ns):
        return passes
    slowdown = topology.accelerator.reached.pair_slowdown
    ahead, back = saved_by_exchange(
        forward,
        round(priced(passes.forward, topology).total_ns),
        backward,
        round(priced(passes.backward, topology).total_ns),
        slowdown=slowdown,
    )
    return Passes(
        forward=_hidden(passes.forward, forward, ahead, slowdown),
        backward=_hidden(passes.backward, backward, back, slowdown),
    )


def _hidden(works: Sequence[Work], half: PassHalves, saved_ns: tuple[int, int], slowdown: float) -> tuple[Work, ...]:
    """Return the works of a pass to whose dispatch and combine so much is owed.

    Works stand in the order of the forward, in both passes. What is hidden slows the computation that hides it.
    """
    whole_ns = half.dispatch_ns, half.combine_ns
    shares = iter(
        [min(1.0, slowdown * saved / whole) if whole else 0.0 for saved, whole in zip(saved_ns, whole_ns, strict=True)]
    )
    return tuple(
        replace(work, hidden_share=next(shares)) if isinstance(work, Exchange) and work.spent is Spent.EXPERT else work
        for work in works
    )
