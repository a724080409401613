"""The exact simulator: when everything runs, what it holds, and where the time goes."""

from evenflow.simulate.bubbles import BubbleTable, IdleTime, as_fractions
from evenflow.simulate.costs import StageCosts, stage_costs
from evenflow.simulate.graph import Graph, build_graph
from evenflow.simulate.memory import live_vectors, memory_curve, peak_bytes
from evenflow.simulate.simulation import Simulation, simulate
from evenflow.simulate.timeline import Timeline, run

__all__ = [
    "BubbleTable",
    "Graph",
    "IdleTime",
    "Simulation",
    "StageCosts",
    "Timeline",
    "as_fractions",
    "build_graph",
    "live_vectors",
    "memory_curve",
    "peak_bytes",
    "run",
    "simulate",
    "stage_costs",
]
