"""The inner loops of message passing, compiled by numba at the first use.

A program lies in flat arrays:

    potential    cost of every choice, node after node; infinite where it is not allowed
    first        index of the first choice of each node, shape [nodes + 1]
    pair         cost of every pair of choices, edge after edge, rows for the choices of the lower node
    place        index of the first pair of each edge, shape [edges + 1]
    ends         nodes of each edge, the lower one first, shape [edges, 2]
    around       edges of every node, node after node
    around_first index of the first edge of each node in `around`, shape [nodes + 1]

Amounts that move between a node and its edges leave the cost of every solution as it is. All are multiples of `unit`, a
power of two, so sums are exact.
"""

from typing import Any

import numpy as np


def sweep(
    potential: Any,
    first: Any,
    pair: Any,
    place: Any,
    ends: Any,
    around: Any,
    around_first: Any,
    forward: bool,
    unit: float,
    choice: Any,
) -> float:
    """Visit the nodes in order, or backwards, and pass costs on along their edges. [TRW-S, in the form of SRMP]

    Each node takes what it can from the edges to nodes before it, and hands what it has in equal shares to those behind
    it. Writes the choices that suit those of the nodes before best, and returns the largest amount that a node held.
    """
    num_nodes = len(first) - 1
    widest = 0
    for node in range(num_nodes):
        widest = max(widest, first[node + 1] - first[node])
    least = np.empty(widest)
    largest = 0.0
    for turn in range(num_nodes):
        node = turn if forward else num_nodes - 1 - turn
        start, count = first[node], first[node + 1] - first[node]
        # The choice that suits those before.
        least[:count] = potential[start : start + count]
        before = 0
        for index in range(around_first[node], around_first[node + 1]):
            edge = around[index]
            low, high = ends[edge, 0], ends[edge, 1]
            other = high if low == node else low
            if (other < node) == forward:
                before += 1
                width = first[high + 1] - first[high]
                if low == node:
                    for a in range(count):
                        least[a] += pair[place[edge] + a * width + choice[other]]
                else:
                    line = place[edge] + choice[other] * width
                    for a in range(count):
                        least[a] += pair[line + a]
        choice[node] = np.argmin(least[:count])
        # Take the least of every line of the edges from nodes before.
        for index in range(around_first[node], around_first[node + 1]):
            edge = around[index]
            low, high = ends[edge, 0], ends[edge, 1]
            other = high if low == node else low
            if (other < node) != forward:
                continue
            rows, width = first[low + 1] - first[low], first[high + 1] - first[high]
            if low == node:
                for a in range(rows):
                    line = place[edge] + a * width
                    amount = np.inf
                    for b in range(width):
                        amount = min(amount, pair[line + b])
                    potential[start + a] += amount
                    if amount < np.inf:
                        for b in range(width):
                            pair[line + b] -= amount
            else:
                least[:width] = np.inf
                for a in range(rows):
                    line = place[edge] + a * width
                    for b in range(width):
                        least[b] = min(least[b], pair[line + b])
                for b in range(width):
                    potential[start + b] += least[b]
                    if least[b] == np.inf:
                        least[b] = 0.0
                for a in range(rows):
                    line = place[edge] + a * width
                    for b in range(width):
                        pair[line + b] -= least[b]
        lowest = np.inf
        for a in range(start, start + count):
            lowest = min(lowest, potential[a])
            if potential[a] < np.inf:
                largest = max(largest, potential[a])
        behind = around_first[node + 1] - around_first[node] - before
        if behind == 0 or lowest == np.inf:
            continue
        # Hand on; what no choice can do without stays here, where it counts for the bound.
        share = 1.0 / (max(before, behind) * unit)
        for a in range(count):
            least[a] = np.floor((potential[start + a] - lowest) * share) * unit
            if potential[start + a] < np.inf:
                potential[start + a] -= behind * least[a]
        for index in range(around_first[node], around_first[node + 1]):
            edge = around[index]
            low, high = ends[edge, 0], ends[edge, 1]
            other = high if low == node else low
            if (other < node) == forward:
                continue
            rows, width = first[low + 1] - first[low], first[high + 1] - first[high]
            if low == node:
                for a in range(rows):
                    line = place[edge] + a * width
                    for b in range(width):
                        pair[line + b] += least[a]
            else:
                for a in range(rows):
                    line = place[edge] + a * width
                    for b in range(width):
                        pair[line + b] += least[b]
    return largest


def bound(potential: Any, first: Any, pair: Any, place: Any) -> tuple[float, float]:
    """Return the sum of the least costs of all nodes and edges, which no solution undercuts, and the largest cost."""
    total = largest = 0.0
    for tables, starts in ((potential, first), (pair, place)):
        for owner in range(len(starts) - 1):
            least = np.inf
            for index in range(starts[owner], starts[owner + 1]):
                least = min(least, tables[index])
                if tables[index] < np.inf:
                    largest = max(largest, tables[index])
            total += least
    return total, largest


def value(potential: Any, first: Any, pair: Any, place: Any, ends: Any, choice: Any) -> float:
    """Return the cost of one choice per node."""
    total = 0.0
    for node in range(len(first) - 1):
        total += potential[first[node] + choice[node]]
    for edge in range(len(ends)):
        low, high = ends[edge, 0], ends[edge, 1]
        total += pair[place[edge] + choice[low] * (first[high + 1] - first[high]) + choice[high]]
    return total


def settle(
    potential: Any,
    first: Any,
    pair: Any,
    place: Any,
    ends: Any,
    around: Any,
    around_first: Any,
    memory: Any,
    choice: Any,
) -> None:
    """Improve choices, one node at a time, until no change costs less, or as much with less memory.

    No change takes more memory.
    """
    num_nodes = len(first) - 1
    widest = 0
    for node in range(num_nodes):
        widest = max(widest, first[node + 1] - first[node])
    total = np.empty(widest)
    better = True
    while better:
        better = False
        for node in range(num_nodes):
            start, count = first[node], first[node + 1] - first[node]
            total[:count] = potential[start : start + count]
            for index in range(around_first[node], around_first[node + 1]):
                edge = around[index]
                low, high = ends[edge, 0], ends[edge, 1]
                width = first[high + 1] - first[high]
                for a in range(count):
                    if low == node:
                        total[a] += pair[place[edge] + a * width + choice[high]]
                    else:
                        total[a] += pair[place[edge] + choice[low] * width + a]
            now = choice[node]
            best = now
            for a in range(count):
                if memory[start + a] > memory[start + now]:
                    continue
                if total[a] < total[best] or (total[a] == total[best] and memory[start + a] < memory[start + best]):
                    best = a
            if best != now:
                choice[node] = best
                better = True


def survivors(
    potential: Any,
    first: Any,
    pair: Any,
    place: Any,
    ends: Any,
    around: Any,
    around_first: Any,
    slack: float,
    alive: Any,
) -> None:
    """Mark the choices that a solution costing at most the bound plus `slack` may have.

    A choice is bounded by its cost, the cheapest pair of it on each of its edges with the neighbour's own cost, and the
    least costs of all the rest.
    """
    num_nodes = len(first) - 1
    lowest = np.empty(num_nodes)
    for node in range(num_nodes):
        lowest[node] = potential[first[node] : first[node + 1]].min()
    lowest_pair = np.empty(len(ends))
    for edge in range(len(ends)):
        lowest_pair[edge] = pair[place[edge] : place[edge + 1]].min()
    for node in range(num_nodes):
        start, count = first[node], first[node + 1] - first[node]
        for a in range(count):
            more = potential[start + a] - lowest[node]
            for index in range(around_first[node], around_first[node + 1]):
                if more > slack:
                    break
                edge = around[index]
                low, high = ends[edge, 0], ends[edge, 1]
                width = first[high + 1] - first[high]
                least = np.inf
                if low == node:
                    line = place[edge] + a * width
                    for b in range(width):
                        least = min(least, pair[line + b] + (potential[first[high] + b] - lowest[high]))
                else:
                    for b in range(first[low + 1] - first[low]):
                        least = min(
                            least, pair[place[edge] + b * width + a] + (potential[first[low] + b] - lowest[low])
                        )
                more += least - lowest_pair[edge]
            alive[start + a] = more <= slack and more < np.inf
