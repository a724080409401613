"""evenflow: plans for pipeline-parallel training, proven, drawn, and written for your framework.

import evenflow

network = evenflow.read_layer_file("examples/llama2_70b.json")
outcome = evenflow.plan(network, num_ranks=8, num_microbatches=32, memory_limit_bytes=56 * 2**30)
print(outcome.summary())
"""

from typing import TYPE_CHECKING, Any

from evenflow.simulate import simulate

if TYPE_CHECKING:
    from evenflow.model import Communication, Network, Plan
    from evenflow.profiles.layer_file import read_layer_file
    from evenflow.simulate import Simulation
    from evenflow.solve import BestOutcome, Outcome, Status, plan, plan_best

__version__ = "0.1.0"

__all__ = [
    "BestOutcome",
    "Communication",
    "Network",
    "Outcome",
    "Plan",
    "Simulation",
    "Status",
    "plan",
    "plan_best",
    "read_layer_file",
    "simulate",
]

# `simulate` is also the name of a subpackage, which would take its place if it were loaded later.
_HOMES = {
    "Communication": "evenflow.model",
    "Network": "evenflow.model",
    "Plan": "evenflow.model",
    "read_layer_file": "evenflow.profiles.layer_file",
    "Simulation": "evenflow.simulate",
    "BestOutcome": "evenflow.solve",
    "Outcome": "evenflow.solve",
    "Status": "evenflow.solve",
    "plan": "evenflow.solve",
    "plan_best": "evenflow.solve",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that importing evenflow stays cheap."""
    if name not in _HOMES:
        raise AttributeError(f"module 'evenflow' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
