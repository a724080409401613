"""Optimal planning: problem, bounds, search, proof, outcome."""

from evenflow.solve.outcome import Infeasibility, Outcome, Progress, ProgressCallback, Status
from evenflow.solve.planner import plan

__all__ = ["Infeasibility", "Outcome", "Progress", "ProgressCallback", "Status", "plan"]
