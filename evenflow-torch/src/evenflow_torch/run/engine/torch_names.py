"""Names that torch keeps private: what evenflow imports, overrides or reads of them stands here, and nowhere else.

Pinned to a release of torch; a test looks for each name.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
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
    from torch.distributed.distributed_c10d import _get_default_store
    from torch.distributed.pipelining.schedules import _Action, _ComputationType, _PipelineScheduleRuntime
    from torch.distributed.pipelining.stage import _RecvInfo
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves, tree_map, tree_map_only
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
    "default_store",
    "forwards_of",
    "raised_inside",
    "take_boundaries",
    "torch_action",
    "tree_leaves",
    "tree_map",
    "tree_map_only",
    "version_of",
    "without_schedules",
]

TorchAction: TypeAlias = _Action
TorchRuntime: TypeAlias = _PipelineScheduleRuntime
ReceiveInfo: TypeAlias = _RecvInfo

USED = {
    PipelineStage: (
        "_setup_forward_recv_info",
        "_create_grad_recv_info",
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
        "perform_reduce_grad",
        "_post_metadata_inference_cleanup",
    ),
    TorchRuntime: (
        "_split_inputs",
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
_GATHER, _RELEASE = _ComputationType.UNSHARD, _ComputationType.RESHARD
_OF_FORWARDS = frozenset(
    (_ComputationType.FORWARD, _ComputationType.SEND_F, _ComputationType.RECV_F, _GATHER, _RELEASE)
)
HOOK = _ComputationType.OVERLAP_F_B
"""No order here has pairs that overlap: hooks run under the name of this type, with a microbatch index."""


def torch_action(action: Action) -> TorchAction:
    """Return an action as the runtime has it."""
    return _Action(action.stage, _TYPES[action.op], action.microbatch)


def forwards_of(order: Sequence[TorchAction]) -> list[TorchAction]:
    """Return the forwards in the order of a rank, with their messages, and with parameters gathered for them alone."""
    kept = [action for action in order if action.computation_type in _OF_FORWARDS]
    result: list[TorchAction] = []
    for action in kept:
        if action.computation_type is _RELEASE:
            last = next(
                place for place in reversed(range(len(result))) if result[place].stage_index == action.stage_index
            )
            if result[last].computation_type is _GATHER:  # it was for a backward
                del result[last]
                continue
        result.append(action)
    return result


def version_of(tensor: Tensor) -> int:
    """Return how often a tensor has been changed in place."""
    return tensor._version


def take_boundaries(stage: PipelineStage, told: PipelineStage) -> None:
    """Give a stage that has not run yet the boundary tensors that `told` was made for."""
    stage._user_meta = told._user_meta


_PIPELINING = Path(torch.distributed.pipelining.__file__).parent
_LOGGER = logging.getLogger("torch.distributed.pipelining.schedules")


def default_store() -> torch.distributed.Store:
    """Return the store of the group of all ranks."""
    return _get_default_store()


def raised_inside(error: Exception) -> Exception:
    """Return what the model has raised, where the runtime has wrapped it into an error of its own; else `error`."""
    while isinstance(error.__cause__, Exception) and _raised_by_runtime(error):
        error = error.__cause__
    return error


def _raised_by_runtime(error: Exception) -> bool:
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return place is not None and Path(place.tb_frame.f_code.co_filename).parent == _PIPELINING


@contextmanager
def without_schedules() -> Iterator[None]:
    """Keep the runtime from writing the whole schedule of all ranks into the log where an action fails."""
    level = _LOGGER.level
    _LOGGER.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        _LOGGER.setLevel(level)
