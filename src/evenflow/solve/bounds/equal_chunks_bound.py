"""A lower bound on the step of all plans whose chunks of a rank hold equally many layers with experts.

A rank whose chunks have k such layers each does the work of k times the number of chunks, whatever it recomputes; with
pairs each layer saves as much as it can. Before its first forward the stages before it in the first chunk are done,
and behind its last backward these follow, each with a layer at least. For a time T every rank has a largest k; where
these do not add up to the layers of a chunk, no plan ends by T.
"""

from evenflow.model import Network, Sizes
from evenflow.simulate import at_best_in_pairs


def equal_chunks_bound_ns(network: Network, sizes: Sizes, *, dense: int) -> int:
    """Return a lower bound on the step; the first `dense` layers of the network have no experts.

    The others divide by the number of chunks, and each rank has one of them at least in every chunk.
    """
    shortest = at_best_in_pairs(network)
    work_ns = [layer.forward_ns + layer.backward_ns for layer in shortest.layers]
    plain_ns = [layer.forward_ns + layer.backward_ns for layer in network.layers]
    least_ns = min(work_ns[dense:])
    # What comes before the first forward of another rank and behind its last backward, where nothing is paired.
    first_stage_ns = sum(plain_ns[:dense]) + network.head.forward_ns + network.head.backward_ns
    count, last = sizes.num_microbatches, sizes.num_ranks - 1
    fixed = [0] * sizes.num_ranks
    fixed[0] += count * (sum(work_ns[:dense]) + network.head.forward_ns + network.head.backward_ns)
    fixed[last] += count * (network.tail.forward_ns + network.tail.backward_ns)
    for rank in range(1, sizes.num_ranks):
        fixed[rank] += first_stage_ns + rank * min(plain_ns[dense:])
    step_ns = count * sizes.num_chunks * least_ns
    wanted = (len(work_ns) - dense) // sizes.num_chunks

    def ends_by(time_ns: int) -> bool:
        most = [(time_ns - own) // step_ns for own in fixed]
        return min(most) >= 1 and sum(most) >= wanted

    times = sorted({own + number * step_ns for own in fixed for number in range(1, wanted + 1)})
    return next(time_ns for time_ns in times if ends_by(time_ns))
