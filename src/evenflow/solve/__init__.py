"""The solver: the shortest plan that fits in memory, with a proof of how good it is."""

from evenflow.solve.best import plan_best, solve_best
from evenflow.solve.best_outcome import BestOutcome, ScheduleCandidate
from evenflow.solve.contest.neighbours import Neighbours, find_neighbours
from evenflow.solve.outcome import BindingLimit, Infeasibility, Outcome, Progress, ProgressCallback, Status
from evenflow.solve.plan import plan, solve

__all__ = [
    "BestOutcome",
    "BindingLimit",
    "Infeasibility",
    "Neighbours",
    "Outcome",
    "Progress",
    "ProgressCallback",
    "ScheduleCandidate",
    "Status",
    "find_neighbours",
    "plan",
    "plan_best",
    "solve",
    "solve_best",
]
