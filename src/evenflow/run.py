"""`evenflow.run`: training as planned on torch.distributed, measured beside the prediction.

This module is a door: it becomes `evenflow_torch.run`, of the package evenflow-torch.
"""

import sys
from typing import TYPE_CHECKING

from evenflow.torch_house import torch_house

if TYPE_CHECKING:
    from evenflow_torch.run import (  # noqa: F401
        AACheck,
        Hook,
        ModelRow,
        Observer,
        Part,
        Pipeline,
        as_row,
        pipeline,
        plan_checks,
    )

if __name__ == "__main__":  # torchrun … -m evenflow.run PLAN.json …: an older name for -m evenflow run, as one rank
    import runpy

    sys.argv[1:1] = ["run", "--as-rank"]
    runpy.run_module("evenflow", run_name="__main__", alter_sys=True)
else:
    sys.modules[__name__] = torch_house("run", place="evenflow.run")
