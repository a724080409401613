"""Programs with one choice per node and a cost for each pair of choices along an edge, solved exactly."""

from evenflow_torch.auto.sharding.pairwise.program import Costs, Pairwise, PairwiseSolution
from evenflow_torch.auto.sharding.pairwise.solver import Solver, least_memory, solve

__all__ = ["Costs", "Pairwise", "PairwiseSolution", "Solver", "least_memory", "solve"]
