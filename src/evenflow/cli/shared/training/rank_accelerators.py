"""``--rank-accelerator``: ranks whose devices are of another kind than the others'.

Layers are priced for every kind of device. The network has the times of the fastest one, and the other ranks a speed:
what the whole network takes there beside what it takes on theirs, since a rank's layers are not known before the plan.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from evenflow.cli.shared.training.planner_inputs import PlannerInputs
from evenflow.language import _
from evenflow.model import Network, RankTraits


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedInputs:
    """What the planner is told of a training on devices of several kinds."""

    inputs: PlannerInputs
    remarks: tuple[str, ...] = ()
    """How fast ranks are beside the fastest ones, a sentence for each kind of device."""


def mixed_inputs(of_ranks: Sequence[str], inputs_of: Callable[[str], PlannerInputs]) -> MixedInputs:
    """Return the inputs for ranks whose devices have these names, of which `inputs_of` gives those on one kind alone.

    A message takes what it takes on the slowest links; a rank has less of the limit by what its devices have less.
    """
    made = {name: inputs_of(name) for name in dict.fromkeys(of_ranks)}
    fastest = min(made, key=lambda name: _work_ns(made[name].network))
    if len(made) == 1:
        return MixedInputs(inputs=made[fastest])
    own = made[fastest]
    speeds = {name: min(1.0, _work_ns(own.network) / _work_ns(inputs.network)) for name, inputs in made.items()}
    limits = {name: inputs.memory_limit_bytes for name, inputs in made.items()}
    known = [limit for limit in limits.values() if limit is not None]
    most = max(known) if len(known) == len(limits) else None
    ranks = tuple(
        RankTraits(speed=speeds[name], reserved_bytes=0 if most is None else most - (limits[name] or 0))
        for name in of_ranks
    )
    slowest = max(made.values(), key=_message_ns)
    inputs = replace(
        own,
        network=replace(own.network, ranks=ranks),
        communication=slowest.communication,
        memory_limit_bytes=most,
    )
    return MixedInputs(inputs=inputs, remarks=tuple(_remarks(of_ranks, made, fastest, speeds)))


def _work_ns(network: Network) -> int:
    """Return what a microbatch takes in all layers, one after the other, without recomputation."""
    ends = (network.head, network.tail)
    layers = sum(run.count * (run.layer.forward_ns + run.layer.backward_ns) for run in network.runs)
    return layers + sum(end.forward_ns + end.backward_ns for end in ends)


def _message_ns(inputs: PlannerInputs) -> int:
    messages = inputs.communication
    return 0 if messages is None else messages.message_of_ns(inputs.message_bytes)


def _remarks(
    of_ranks: Sequence[str], made: dict[str, PlannerInputs], fastest: str, speeds: dict[str, float]
) -> Iterator[str]:
    for name, inputs in made.items():
        if name == fastest:
            continue
        pairs = zip(made[fastest].network.runs, inputs.network.runs, strict=True)
        shares = [
            (fast.layer.forward_ns + fast.layer.backward_ns) / (slow.layer.forward_ns + slow.layer.backward_ns)
            for fast, slow in pairs
        ]
        yield _(
            "note: ranks {ranks} on {name} do {speed:.2f} of what {fastest} does in a time, their layers from "
            "{least:.2f} to {most:.2f}; all count with {speed:.2f}",
            ranks=", ".join(str(rank) for rank, own in enumerate(of_ranks) if own == name),
            name=name,
            speed=speeds[name],
            fastest=fastest,
            least=min(shares),
            most=max(shares),
        )
