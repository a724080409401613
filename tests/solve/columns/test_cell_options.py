"""Cell contents against the layers they stand for."""

import numpy as np
from hypothesis import given, settings

from evenflow.solve.columns.cell_options import Segments, merged_runs
from tests.solve.cases import cases
from tests.thoroughness import examples

PLENTY = 10**15


@given(case=cases())
@settings(max_examples=examples(60))
def test_options_cost_what_their_layers_cost(case):
    problem = case.problem()
    network, kinds = problem.network, problem.kinds
    ends = np.cumsum([run.count for run in merged_runs(problem)])
    segments = Segments(problem, PLENTY)
    for cell in range(problem.num_cells):
        options = segments.options(cell, first_runs=range(len(ends)), last_run_from=0, max_load_ns=PLENTY)
        blocks = [network.head] * (cell == 0) + [network.tail] * (cell == problem.num_cells - 1)
        for at in range(len(options)):
            first, last = options.first_run[at], options.last_run[at]
            begins = ends[first] - (options.in_first[at] if last > first else network_run_size(ends, first))
            layers = network.layers[begins : begins + options.layers[at]]
            assert len(layers) == options.layers[at] == options.counts[at].sum()
            assert last == first or begins + options.layers[at] == ends[last - 1] + options.in_last[at]
            in_order = np.repeat(kinds, options.counts[at])
            modes = [layer.modes[kind] for layer, kind in zip(layers, in_order, strict=True)]
            assert options.forward_ns[at] == sum(part.forward_ns for part in (*layers, *blocks))
            assert options.backward_ns[at] == sum(part.backward_ns for part in (*modes, *blocks))
            assert options.weight_ns[at] == sum(part.weight_ns for part in (*layers, *blocks))
            assert options.until_weight_bytes[at] == sum(part.until_weight_bytes for part in (*layers, *blocks))
            assert options.activation_bytes[at] == sum(part.activation_bytes for part in (*modes, *blocks))
            assert options.parameter_bytes[at] == sum(part.parameter_bytes for part in (*layers, *blocks))
            assert options.working_bytes[at] == max((part.working_bytes for part in (*modes, *blocks)), default=0)
            faster = options.faster[at]
            if faster >= 0:
                assert options.backward_ns[faster] <= options.backward_ns[at]
                if not problem.sums.has_working:
                    assert options.backward_ns[faster] < options.backward_ns[at]
                    assert options.activation_bytes[faster] > options.activation_bytes[at]
                assert options.layers[faster] == options.layers[at]
                assert options.parameter_bytes[faster] == options.parameter_bytes[at]


def network_run_size(ends, run: int) -> int:
    return ends[run] - (ends[run - 1] if run else 0)
