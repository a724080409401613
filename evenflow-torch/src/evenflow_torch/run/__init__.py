"""Training as planned on torch.distributed, measured beside the prediction. Needs torch: ``evenflow[torch]``.

Names are loaded when they are first used, so that `evenflow run --help` needs no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evenflow.aa import plan_checks
    from evenflow_torch.models.parts import ModelRow, Part
    from evenflow_torch.models.rows import as_row
    from evenflow_torch.run.aa.aa_check import AACheck
    from evenflow_torch.run.assembly.build import pipeline
    from evenflow_torch.run.assembly.pipeline import Pipeline
    from evenflow_torch.run.engine.hooks import Hook
    from evenflow_torch.run.engine.runtime_stage import Observer

__all__ = ["AACheck", "Hook", "ModelRow", "Observer", "Part", "Pipeline", "as_row", "pipeline", "plan_checks"]

_HOMES = {
    "AACheck": "evenflow_torch.run.aa.aa_check",
    "Hook": "evenflow_torch.run.engine.hooks",
    "ModelRow": "evenflow_torch.models.parts",
    "Observer": "evenflow_torch.run.engine.runtime_stage",
    "Part": "evenflow_torch.models.parts",
    "Pipeline": "evenflow_torch.run.assembly.pipeline",
    "as_row": "evenflow_torch.models.rows",
    "pipeline": "evenflow_torch.run.assembly.build",
    "plan_checks": "evenflow.aa.plan_checks",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'evenflow.run' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
