"""Optimal planning: problem, bounds, search, proof, outcome."""

from evenflow.solve.best import plan_best
from evenflow.solve.best_outcome import BestOutcome, Candidate
from evenflow.solve.outcome import Infeasibility, Outcome, Progress, ProgressCallback, Status
from evenflow.solve.race import plan

__all__ = [
    "BestOutcome",
    "Candidate",
    "Infeasibility",
    "Outcome",
    "Progress",
    "ProgressCallback",
    "Status",
    "plan",
    "plan_best",
]
