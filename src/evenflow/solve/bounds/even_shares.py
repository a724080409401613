"""What the ranks of a pipeline have on average: the one with the most has no less, however the network is cut."""

from evenflow.model import Network, Request

_SAFE = 1 - 1e-9
"""Factor by which a bound is lowered for rounding in floating point."""


def lowered(bound: float) -> float:
    """Return a bound lowered by more than sums in floating point are off, so that it holds in spite of rounding."""
    return bound * _SAFE


def step_work_ns(network: Network, *, num_units: int) -> int:
    """Return the time that all ranks together compute in a step without recomputation.

    `num_units` is the number of times that the network runs forward and backward.
    """
    layers = sum(run.count * (run.layer.forward_ns + run.layer.backward_ns) for run in network.runs)
    ends = sum(end.forward_ns + end.backward_ns for end in (network.head, network.tail))
    return num_units * (layers + ends)


def even_work_ns(network: Network, *, num_units: int, num_ranks: int) -> float:
    """Return a lower bound on the step with any cells in any order: the work without recomputation, shared evenly."""
    return step_work_ns(network, num_units=num_units) / num_ranks


def even_memory_bytes(request: Request) -> float:
    """Return a lower bound on the peak memory of a step: the state and one microbatch's activations, shared evenly.

    When a rank begins the backward of its first microbatch, it has the activations of all of its layers.
    """
    network = request.network
    layers = sum(
        run.count * (run.layer.parameter_bytes + min(mode.activation_bytes for mode in run.layer.modes.values()))
        for run in network.runs
    )
    all_ranks = layers + network.head.parameter_bytes + network.tail.parameter_bytes
    return all_ranks / request.sizes.num_ranks + network.constant_bytes
