"""The inter-operator problem once more, by plain recursion over everything."""

from collections.abc import Iterator, Sequence

import numpy as np

from evenflow.cluster.cluster import Cluster, submeshes
from evenflow_torch.auto.stages.dynamic_program import CandidateCosts

Stages = tuple[tuple[int, int, int, int], ...]
"""First layer, end, submesh index, option of every stage."""


def every_plan(costs: CandidateCosts, num_devices: int, first: int = 0) -> Iterator[Stages]:
    """All ways to hold layers `first` and later on exactly `num_devices` devices."""
    if first == costs.num_layers:
        if num_devices == 0:
            yield ()
        return
    for end in range(first + 1, costs.num_layers + 1):
        for index, shape in enumerate(costs.submeshes):
            if shape.num_devices <= num_devices:
                for option in range(len(costs.cost_ns)):
                    if costs.cost_ns[option, index, first, end] >= 0:
                        for rest in every_plan(costs, num_devices - shape.num_devices, end):
                            yield ((first, end, index, option), *rest)


def step_ns(costs: CandidateCosts, stages: Stages, num_microbatches: int) -> int:
    """Equation 2."""
    times = [int(costs.cost_ns[option, index, first, end]) for first, end, index, option in stages]
    entries = sum(int(costs.entry_ns[index, first]) for first, _, index, _ in stages)
    return sum(times) + entries + (num_microbatches - 1) * max(times)


def simulated_bound_ns(costs: CandidateCosts, stages: Stages, num_microbatches: int) -> int:
    """The longest, over all stages, of the way to it and back and all its work."""
    before, longest = 0, 0
    for first, end, index, option in stages:
        time = int(costs.cost_ns[option, index, first, end])
        before += int(costs.entry_ns[index, first])
        longest = max(longest, before + num_microbatches * time)
        before += time
    return longest


def memory_bytes(costs: CandidateCosts, stages: Stages, in_flight: Sequence[int]) -> int:
    """What the fullest device holds."""
    return max(
        int(costs.static_bytes[option, index, first, end])
        + in_flight[len(stages) - place] * int(costs.activation_bytes[option, index, first, end])
        for place, (first, end, index, option) in enumerate(stages)
    )


def random_costs(
    pick: np.random.Generator, cluster: Cluster, num_layers: int, *, num_options: int = 1, missing: float = 0.0
) -> CandidateCosts:
    """Costs without any structure: small integers, so that there are many ties."""
    shapes = submeshes(cluster)
    shape = (num_options, len(shapes), num_layers + 1, num_layers + 1)
    cost = np.sort(pick.integers(0, 30, shape), axis=0)
    first, end = np.indices(shape[2:])
    cost[:, :, first >= end] = -1
    cost[pick.random(shape) < missing] = -1
    entry = pick.integers(0, 10, (len(shapes), num_layers + 1))
    entry[:, 0] = 0
    return CandidateCosts(
        submeshes=shapes,
        cost_ns=cost,
        static_bytes=pick.integers(0, 50, shape),
        activation_bytes=pick.integers(0, 20, shape),
        entry_ns=entry,
    )
