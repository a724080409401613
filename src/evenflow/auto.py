"""`evenflow.auto`: two-level planning: stages on parts of a cluster, operators sharded inside them.

This module is a door: it becomes `evenflow_torch.auto`, of the package evenflow-torch.
"""

import sys
from typing import TYPE_CHECKING

from evenflow.torch_house import torch_house

if TYPE_CHECKING:
    from evenflow_torch.auto import *  # noqa: F403

sys.modules[__name__] = torch_house("auto", place="evenflow.auto")
