"""A plan on torch.distributed: correct, measured, and beside its prediction. Needs torch: ``evenflow[run]``.

Names are loaded when they are first used, so that `evenflow run --help` needs no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenflow.run.aa_check import AACheck
    from evenflow.run.aa_plan import plan_checks
    from evenflow.run.adapter import Hook, Observer
    from evenflow.run.assemble import Pipeline, pipeline
    from evenflow.run.layered import LayeredModel, as_layered

__all__ = ["AACheck", "Hook", "LayeredModel", "Observer", "Pipeline", "as_layered", "pipeline", "plan_checks"]

_HOMES = {
    "AACheck": "evenflow.run.aa_check",
    "Hook": "evenflow.run.adapter",
    "LayeredModel": "evenflow.run.layered",
    "Observer": "evenflow.run.adapter",
    "Pipeline": "evenflow.run.assemble",
    "as_layered": "evenflow.run.layered",
    "pipeline": "evenflow.run.assemble",
    "plan_checks": "evenflow.run.aa_plan",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'evenflow.run' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
