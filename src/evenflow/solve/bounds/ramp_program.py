"""A lower bound on the step for several chunks per rank, by a linear program: the ramps of every chunk of every rank.

The jobs of a rank's chunks from some chunk on begin when the first microbatch has passed all stages before that one,
and where backwards are whole, its last gradient passes them all back after them. So with layers that are shared out in
any parts, all like the least of every cost, no step is shorter than such a head, such work and such a tail.
"""

from collections.abc import Sequence

import numpy as np

from evenflow.solve.backends.highs import Program
from evenflow.solve.bounds.any_order_bound import AnyPlan

_SECONDS = 10.0
"""Time of the program, of which it takes a hundredth."""
_TOLERANCE = 1e-6
"""Share by which the solution is lowered: rows may be violated by a tenth of that."""


def ramp_program_ns(plans: AnyPlan, stage_ranks: Sequence[int]) -> float:
    """Return a lower bound in ns on the step of any plan with this placement, in any order; 0 if none was computed."""
    network, units, split = plans.network, plans.num_units, plans.may_split
    layers = [run.layer for run in network.runs]
    forward = min(layer.forward_ns for layer in layers)
    backward = min(min(mode.backward_ns for mode in layer.modes.values()) for layer in layers)
    plain = [min(mode.backward_ns for mode in layer.modes.values()) - split * layer.weight_ns for layer in layers]
    passed = forward + (0 if split else min(plain))
    head, tail = network.head, network.tail
    head_passed = head.forward_ns + (0 if split else head.backward_ns)
    stages = len(stage_ranks)
    scale = 1 / max(1, units * (forward + backward) * network.num_layers / plans.num_ranks)
    program = Program()
    sizes = np.array(program.columns(stages, lower=float(plans.min_layers)))
    step = program.column(cost=1.0)
    program.row(sizes, np.ones(stages), lower=float(network.num_layers), upper=float(network.num_layers))
    for stage, rank in enumerate(stage_ranks):
        own = np.array([later for later in range(stage, stages) if stage_ranks[later] == rank])
        entries = np.zeros(stages)
        entries[:stage] += passed
        entries[own] += units * (forward + backward)
        fixed = float(head_passed) if stage else float(units * (head.forward_ns + head.backward_ns))
        if own[-1] == stages - 1:
            fixed += units * (tail.forward_ns + tail.backward_ns)
        program.row([*sizes, step], [*(scale * entries), -1.0], upper=-scale * fixed)
    solution = program.solve(time_limit_s=_SECONDS)
    return max(0.0, solution.bound) * (1 - _TOLERANCE) / scale if solution.status == "optimal" else 0.0
