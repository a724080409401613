"""Small programs of any shape, and all their choices."""

import itertools

import numpy as np
from hypothesis import strategies as st

from evenflow_torch.auto.sharding.pairwise import Pairwise
from evenflow_torch.auto.sharding.pairwise.program import Choices


@st.composite
def programs(draw: st.DrawFn) -> Pairwise:
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=7))
    density = draw(st.sampled_from([0.2, 0.5, 1.0]))
    forbidden = draw(st.sampled_from([0.0, 0.3]))
    most = draw(st.sampled_from([3, 10_000, 2**40, 2**47]))

    def table(*shape: int) -> np.ndarray:
        costs = random.integers(0, most, size=shape).astype(float)
        costs[random.random(shape) < forbidden] = np.inf
        return costs

    program = Pairwise()
    for size in sizes:
        weight = random.integers(0, 2)
        program.node(table(size), random.integers(0, 2**22, size).astype(float) * weight)
    for i, j in itertools.combinations(range(len(sizes)), 2):
        if random.random() < density:
            first, second = (i, j) if random.random() < 0.5 else (j, i)
            program.edge(first, second, table(sizes[first], sizes[second]))
    return program


def all_choices(program: Pairwise) -> dict[Choices, tuple[float, float]]:
    """Cost and memory of every combination that is allowed, summed up here once more."""
    found = {}
    for choices in itertools.product(*(range(len(costs)) for costs in program.costs)):
        cost = sum(costs[choice] for costs, choice in zip(program.costs, choices, strict=True))
        cost += sum(table[choices[i], choices[j]] for (i, j), table in program.edges.items())
        memory = sum(memory[choice] for memory, choice in zip(program.memory, choices, strict=True))
        if np.isfinite(cost):
            found[choices] = (cost, memory)
    return found


def hard_program(nodes: int, choices: int, seed: int) -> Pairwise:
    """Every pair of nodes has an edge of random costs: nothing can be settled, and no bound is close."""
    random = np.random.default_rng(seed)
    program = Pairwise()
    for _ in range(nodes):
        program.node(random.integers(0, 1000, choices).astype(float), random.integers(0, 2**22, choices).astype(float))
    for i, j in itertools.combinations(range(nodes), 2):
        program.edge(i, j, random.integers(0, 1000, (choices, choices)).astype(float))
    return program
