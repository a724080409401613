"""The inner loops of the dynamic program over stages, layers and devices, compiled by numba at the first use.

::

    layers    0 ........ k ....... i ................ L
                         | stage   | table[s - 1, i]  |
                         | on n    | on d - n devices |

``table[s, k, d]`` is the least sum over `s` stages that hold layers k and later on exactly `d` devices. A stage takes
layers [k, i) on submesh c in one of its options, cheapest first. [Alpa, eq. 3 and 5]

Costs are integers held in floating point, where infinity is "impossible": sums of integers below 2**53 are exact, and
minima of several of them cost one instruction. All functions take

    cost            of a stage, infinite where there is none, shape [num_options, num_submeshes, L + 1, L + 1],
                    indexed [option, c, k, i]
    last_position   shape of `cost`: where the option still fits in memory, counting stages from the end; 0 for never
    entry           what a stage adds to the sum for receiving its input, shape [num_submeshes, L + 1], by [c, k]
    sizes           devices of each submesh, shape [num_submeshes]
    threshold       the largest cost that a stage may have
    table           shape [most_stages + 1, L + 1, num_devices + 1]
"""

from typing import Any

import numpy as np


def device_bounds(cost: Any, last_position: Any, sizes: Any, threshold: float, least: Any, before: Any) -> None:
    """Count the fewest devices for layers k and later, and for those before k, with no stage above `threshold`.

    `least` and `before` have shape [L + 1] and come in as zeros; more than any cluster has where it is impossible.
    """
    num_layers = len(least) - 1
    least[:num_layers] = 1 << 40
    before[1:] = 1 << 40
    for last in range(num_layers + 1):
        for first in range(last):
            for submesh in range(len(sizes)):
                for option in range(len(cost)):
                    if cost[option, submesh, first, last] <= threshold and last_position[option, submesh, first, last]:
                        before[last] = min(before[last], before[first] + sizes[submesh])
                        break
    for first in range(num_layers - 1, -1, -1):
        for last in range(first + 1, num_layers + 1):
            for submesh in range(len(sizes)):
                for option in range(len(cost)):
                    if cost[option, submesh, first, last] <= threshold and last_position[option, submesh, first, last]:
                        least[first] = min(least[first], least[last] + sizes[submesh])
                        break


def fill_table(
    cost: Any, last_position: Any, entry: Any, sizes: Any, threshold: float, least: Any, before: Any, table: Any
) -> None:
    """Fill `table`, infinite but ``table[0, L, 0] = 0``; what cannot be part of a plan for all devices is left out.

    `least` and `before` are those of `device_bounds`.
    """
    num_layers, num_devices = table.shape[1] - 1, table.shape[2] - 1
    # Between which numbers of devices a row may be finite.
    lows = np.full(table.shape[:2], num_devices + 1)
    highs = np.full(table.shape[:2], -1)
    lows[0, num_layers] = highs[0, num_layers] = 0
    for position in range(1, table.shape[0]):
        for first in range(num_layers - position, -1, -1):
            row = table[position, first]
            for submesh in range(len(sizes)):
                size = sizes[submesh]
                # What follows has position - 1 stages of at least one layer and one device each.
                begin = first + 1 if position > 1 else num_layers
                for end in range(begin, num_layers - position + 2):
                    for option in range(len(cost)):
                        if last_position[option, submesh, first, end] >= position:
                            own = cost[option, submesh, first, end]
                            break
                    else:
                        continue
                    if own > threshold:
                        continue
                    own += entry[submesh, first]
                    rest = table[position - 1, end]
                    low = max(lows[position - 1, end], least[first] - size)
                    high = min(highs[position - 1, end], num_devices - size - before[first])
                    if low > high:
                        continue
                    lows[position, first] = min(lows[position, first], low + size)
                    highs[position, first] = max(highs[position, first], high + size)
                    for devices in range(low, high + 1):
                        total = own + rest[devices]
                        row[devices + size] = total if total < row[devices + size] else row[devices + size]


def fill_bound_table(
    cost: Any,
    last_position: Any,
    entry: Any,
    sizes: Any,
    num_microbatches: int,
    most: float,
    least: Any,
    before: Any,
    table: Any,
) -> None:
    """Fill `table`, infinite but ``table[0, L, 0] = 0``, with the least time that no simulated step undercuts.

    A stage of time t begins when a microbatch has passed the stages before it, works B t, and what it gives back then
    passes these: so the stages from k on take at least max(B t, t + what the next ones take), and the entry. Stages on
    which B t exceeds `most` are left out; `least` and `before` are those of `device_bounds`.
    """
    num_layers, num_devices = table.shape[1] - 1, table.shape[2] - 1
    for position in range(1, table.shape[0]):
        for first in range(num_layers - position, -1, -1):
            row = table[position, first]
            for submesh in range(len(sizes)):
                size = sizes[submesh]
                begin = first + 1 if position > 1 else num_layers
                for end in range(begin, num_layers - position + 2):
                    for option in range(len(cost)):
                        if last_position[option, submesh, first, end] >= position:
                            own = cost[option, submesh, first, end]
                            break
                    else:
                        continue
                    if num_microbatches * own > most:
                        continue
                    rest = table[position - 1, end]
                    low, high = max(position - 1, least[first] - size), num_devices - size - before[first]
                    for devices in range(low, high + 1):
                        total = max(num_microbatches * own, own + rest[devices]) + entry[submesh, first]
                        row[devices + size] = total if total < row[devices + size] else row[devices + size]


def trace(
    cost: Any, last_position: Any, entry: Any, sizes: Any, threshold: float, table: Any, num_stages: int, stages: Any
) -> float:
    """Write the plan behind ``table[num_stages, 0, num_devices]`` to `stages` and return its largest cost.

    `stages` [num_stages, 3] holds first layer, submesh and option of each; of equal plans the one with the smallest
    submesh and the fewest layers, stage by stage from the first.
    """
    num_layers, devices = table.shape[1] - 1, table.shape[2] - 1
    first, largest = 0, 0.0
    for index in range(num_stages):
        position = num_stages - index
        wanted = table[position, first, devices]
        is_placed = False
        for submesh in range(len(sizes)):
            if sizes[submesh] > devices:
                break
            for end in range(first + 1, num_layers + 1):
                for option in range(len(cost)):
                    if last_position[option, submesh, first, end] >= position:
                        break
                else:
                    continue
                own = cost[option, submesh, first, end]
                rest = table[position - 1, end, devices - sizes[submesh]]
                if own <= threshold and own + entry[submesh, first] + rest == wanted:
                    stages[index, 0], stages[index, 1], stages[index, 2] = first, submesh, option
                    largest = max(largest, own)
                    devices -= sizes[submesh]
                    first = end
                    is_placed = True
                    break
            if is_placed:
                break
    return largest


def fill_memory_table(static: Any, activation: Any, in_flight: Any, sizes: Any, table: Any) -> None:
    """Fill `table`, infinite but ``table[0, L, 0] = 0``, with the least memory that every stage's device must have.

    `static` and `activation` have the shape of `cost` and are infinite where there is no option; a stage at position s
    from the end holds ``in_flight[s]`` activations.
    """
    num_layers, num_devices = table.shape[1] - 1, table.shape[2] - 1
    for position in range(1, table.shape[0]):
        live = in_flight[position]
        for first in range(num_layers - position, -1, -1):
            row = table[position, first]
            for submesh in range(len(sizes)):
                size = sizes[submesh]
                begin = first + 1 if position > 1 else num_layers
                for end in range(begin, num_layers - position + 2):
                    own = static[0, submesh, first, end] + live * activation[0, submesh, first, end]
                    for option in range(1, len(static)):
                        own = min(
                            own, static[option, submesh, first, end] + live * activation[option, submesh, first, end]
                        )
                    rest = table[position - 1, end]
                    for devices in range(position - 1, num_devices - size + 1):
                        total = own if own > rest[devices] else rest[devices]
                        row[devices + size] = total if total < row[devices + size] else row[devices + size]
