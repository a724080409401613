"""Names that torch keeps private: what evenflow imports, overrides or reads of them stands here, and nowhere else.

Pinned to a release of torch; a test looks for each name.
"""

from typing import TypeAlias

import torch
from torch import Tensor
from torch.distributed.pipelining import PipelineStage

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.schedule import Action, Op

TORCH_VERSIONS = "2.13"
"""The release whose private names are used here; others are refused when a name is missing."""

try:
    from torch.distributed._functional_collectives import AsyncCollectiveTensor
    from torch.distributed.pipelining.schedules import _Action, _ComputationType, _PipelineScheduleRuntime
    from torch.distributed.pipelining.stage import _make_tensor_from_meta, _RecvInfo
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves, tree_map
except ImportError as error:
    raise InputError(
        value=torch.__version__,
        rule=_(
            "must be of release {torch_versions}: other releases have other private names in pipelining ({error})",
            torch_versions=TORCH_VERSIONS,
            error=error,
        ),
        place="torch",
        remedy=_('install the version that evenflow is tested with: pip install "evenflow[torch]"'),
    ) from None

__all__ = [
    "COMPUTING",
    "HOOK",
    "TORCH_VERSIONS",
    "USED",
    "AsyncCollectiveTensor",
    "PipelineStage",
    "ReceiveInfo",
    "TorchAction",
    "TorchDispatchMode",
    "TorchRuntime",
    "buffer_of",
    "take_boundaries",
    "torch_action",
    "tree_leaves",
    "tree_map",
    "version_of",
]

TorchAction: TypeAlias = _Action
TorchRuntime: TypeAlias = _PipelineScheduleRuntime
ReceiveInfo: TypeAlias = _RecvInfo
buffer_of = _make_tensor_from_meta

USED = {
    PipelineStage: (
        "_setup_forward_recv_info",
        "_create_grad_recv_info",
        "_get_recv_ops",
        "get_fwd_recv_ops",
        "get_bwd_recv_ops",
        "get_fwd_send_ops",
        "get_bwd_send_ops",
        "_warmup_forward_vote",
        "_warmup_backward_result",
        "_retrieve_recv_activations",
        "_retrieve_recv_grads",
        "forward_one_chunk",
        "backward_one_chunk",
        "backward_maybe_with_nosync",
        "backward_weight_one_chunk",
    ),
    TorchRuntime: (
        "_maybe_compute_loss",
        "_maybe_get_loss",
        "_compute_loss",
        "_update_losses",
        "_step_microbatches",
        "_prepare_schedule_with_comms",
        "register_custom_function",
    ),
    Tensor: ("_version",),
}
"""Methods and attributes of torch's classes that evenflow overrides, calls or reads."""

_TYPES = {
    Op.F: _ComputationType.FORWARD,
    Op.B: _ComputationType.FULL_BACKWARD,
    Op.I: _ComputationType.BACKWARD_INPUT,
    Op.W: _ComputationType.BACKWARD_WEIGHT,
}
COMPUTING = frozenset(_TYPES.values())
"""Types of the actions that compute; the others are messages."""
HOOK = _ComputationType.UNSHARD
"""Without FSDP the runtime does nothing for this type: hooks run under its name, with a microbatch index."""


def torch_action(action: Action) -> TorchAction:
    """Return an action as the runtime has it."""
    return _Action(action.stage, _TYPES[action.op], action.microbatch)


def version_of(tensor: Tensor) -> int:
    """Return how often a tensor has been changed in place."""
    return tensor._version


def take_boundaries(stage: PipelineStage, told: PipelineStage) -> None:
    """Give a stage that has not run yet the boundary tensors that `told` was made for."""
    stage._user_meta = told._user_meta
