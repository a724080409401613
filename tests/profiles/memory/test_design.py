"""Designs of dry runs against exhaustive search."""

from itertools import combinations_with_replacement

import numpy as np
import pytest

from evenflow.profiles.memory.design import DesignTask, find_design
from tests.profiles.memory.every_round import every_round


@pytest.mark.parametrize(
    ("ranks", "layers", "kinds", "num_rounds"),
    [(5, 8, ("none",), 1), (6, 9, ("none", "full"), 1), (4, 5, ("none", "full"), 2)],
)
def test_a_design_as_good_as_exhaustive_search_finds(ranks, layers, kinds, num_rounds):
    task = DesignTask(num_rounds=num_rounds, num_ranks=ranks, num_layers=layers, kinds=kinds)
    rounds = [rows for rows in every_round(ranks, layers, len(kinds)) if rows[:, 1].max() <= task.most_layers]
    systems = np.array([np.concatenate(chosen) for chosen in combinations_with_replacement(rounds, num_rounds)])
    with np.errstate(divide="ignore"):
        best = np.linalg.cond(systems * task.scales).min()
    found = [
        (1, sum(counts), *((ranks - rank) * counts))
        for design in find_design(task)
        for rank, counts in enumerate(design)
        if 0 < rank < ranks - 1
    ]
    assert np.linalg.cond(np.array(found) * task.scales) <= 1.02 * best
