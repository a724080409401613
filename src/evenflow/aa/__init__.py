"""The A/A check on paper: which finished work is done again in which bubble of which step, and what that covers."""

from evenflow.aa.coverage import Coverage, RankCoverage, coverage_of
from evenflow.aa.plan_checks import plan_checks
from evenflow.aa.rank_checks import RankChecks
from evenflow.aa.work import Cell, Check, Direction, StageWork

__all__ = [
    "Cell",
    "Check",
    "Coverage",
    "Direction",
    "RankChecks",
    "RankCoverage",
    "StageWork",
    "coverage_of",
    "plan_checks",
]
