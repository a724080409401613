"""Training as planned on torch.distributed, measured beside the prediction. Needs torch: ``evenflow[run]``.

Names are loaded when they are first used, so that `evenflow run --help` needs no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenflow.run.aa.check import AACheck
    from evenflow.run.aa.plan_checks import plan_checks
    from evenflow.run.assembly.build import pipeline
    from evenflow.run.assembly.pipeline import Pipeline
    from evenflow.run.engine.hooks import Hook
    from evenflow.run.engine.runtime_stage import Observer
    from evenflow.torch_model.parts import ModelRow
    from evenflow.torch_model.rows import as_row

__all__ = ["AACheck", "Hook", "ModelRow", "Observer", "Pipeline", "as_row", "pipeline", "plan_checks"]

_HOMES = {
    "AACheck": "evenflow.run.aa.check",
    "Hook": "evenflow.run.engine.hooks",
    "ModelRow": "evenflow.torch_model.parts",
    "Observer": "evenflow.run.engine.runtime_stage",
    "Pipeline": "evenflow.run.assembly.pipeline",
    "as_row": "evenflow.torch_model.rows",
    "pipeline": "evenflow.run.assembly.build",
    "plan_checks": "evenflow.run.aa.plan_checks",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'evenflow.run' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
