"""Names that torch keeps private: what evenflow imports, overrides or reads of them stands here, and nowhere else.

`TORCH_VERSIONS` are the releases of torch that have been tried. What they call differently stands in `USED_BY_SOME`,
and functions here hide it. A test looks for each name in the release that is installed.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.fsdp import FSDPModule
from torch.distributed.pipelining import PipelineStage

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.schedule import Action, Op

TORCH_VERSIONS = "2.13", "2.14", "2.15"
"""The releases whose private names are used here; others are refused when a name is missing."""

try:
    from torch.distributed._functional_collectives import AsyncCollectiveTensor
    from torch.distributed.distributed_c10d import _get_default_store
    from torch.distributed.pipelining._utils import InferenceMode
    from torch.distributed.pipelining.schedules import _Action, _ComputationType, _PipelineScheduleRuntime
    from torch.distributed.pipelining.stage import _RecvInfo
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves, tree_map, tree_map_only
except ImportError as error:
    raise InputError(
        value=torch.__version__,
        rule=_(
            "must be of release {torch_versions}: other releases have other private names in pipelining ({error})",
            torch_versions=", ".join(TORCH_VERSIONS),
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
    "drop_outputs",
    "expects_given_shapes",
    "forget_forward",
    "forwards_of",
    "group_between",
    "is_gathered",
    "kept_microbatches",
    "kept_of",
    "raised_inside",
    "reduce_nothing",
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
        "_resolve_peer_global_rank",
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
"""Methods and attributes of torch's classes that evenflow overrides, calls or reads, in all releases."""

USED_BY_SOME: Mapping[tuple[str, ...], Mapping[type, Sequence[str]]] = {
    ("2.13", "2.14"): {
        PipelineStage: ("_warmup_forward_vote", "_warmup_backward_result"),
        FSDPModule: ("set_is_last_backward",),
    },
    ("2.15",): {
        PipelineStage: ("_get_p2p_group", "_make_forward_chunk_state", "release_fwd_send_outputs",
                        "start_gradient_reduction", "wait_for_gradient_reduction"),
        TorchRuntime: ("_initialize_pipeline_distributed_state",),
        FSDPModule: ("set_manual_backward_finalization",),
    },
}  # fmt: skip
"""The same of some releases, which name them."""

_TYPES = {
    Op.F: _ComputationType.FORWARD,
    Op.B: _ComputationType.FULL_BACKWARD,
    Op.I: _ComputationType.BACKWARD_INPUT,
    Op.W: _ComputationType.BACKWARD_WEIGHT,
}
COMPUTING = frozenset(_TYPES.values())
"""Types of the actions that compute; the others are messages."""
_GATHER, _RELEASE = _ComputationType.UNSHARD, _ComputationType.RESHARD
_FORWARDS = {"FORWARD", "SEND_F", "RECV_F", "WAIT_SEND_F", _GATHER.name, _RELEASE.name}
_OF_FORWARDS = frozenset(kind for kind in _ComputationType if kind.name in _FORWARDS)
HOOK = _ComputationType.OVERLAP_F_B
"""No order here has pairs that overlap: hooks run under the name of this type, with a microbatch index."""


def torch_action(action: Action) -> TorchAction:
    """Return an action as the runtime has it."""
    return _Action(action.stage, _TYPES[action.op], action.microbatch)


def forwards_of(order: Sequence[TorchAction]) -> list[TorchAction]:
    """Return the forwards in the order of a rank, with their messages, and with parameters gathered for them alone."""
    kept = [action for action in order if action.computation_type in _OF_FORWARDS]
    using = (_ComputationType.FORWARD, _GATHER)
    result: list[TorchAction] = []
    for action in kept:
        if action.computation_type is _RELEASE:
            last = next(
                place
                for place in reversed(range(len(result)))
                if result[place].stage_index == action.stage_index and result[place].computation_type in using
            )
            if result[last].computation_type is _GATHER:  # it was for a backward
                del result[last]
                continue
        result.append(action)
    return result


def version_of(tensor: Tensor) -> int:
    """Return how often a tensor has been changed in place."""
    return tensor._version


def kept_of(stage: PipelineStage, microbatch: int) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the outputs and inputs that a stage keeps of a microbatch behind its forward."""
    state = _kept(stage)[microbatch]
    return state if isinstance(state, tuple) else (tuple(state.live_outputs), state.input_values)


def kept_microbatches(stage: PipelineStage) -> list[int]:
    """Return the microbatches of which a stage keeps something."""
    return sorted(_kept(stage))


def drop_outputs(stage: PipelineStage, microbatch: int) -> None:
    """Let a stage keep the inputs of a microbatch alone."""
    kept = _kept(stage)
    state = kept[microbatch]
    if isinstance(state, tuple):
        kept[microbatch] = ((), state[1])
    else:
        state.live_outputs, state.output_grad_edges, state.releasable, state.send_pending = [], (), (), []


def forget_forward(stage: PipelineStage, microbatch: int) -> None:
    """Let a stage keep nothing of a microbatch."""
    del _kept(stage)[microbatch]


def _kept(stage: PipelineStage) -> dict[int, Any]:
    kept: dict[int, Any] = stage.fwd_cache if hasattr(stage, "fwd_cache") else stage._forward_chunk_states
    return kept


def group_between(stage: PipelineStage, source: int, target: int) -> dist.ProcessGroup | None:
    """Return the processes among which a message between two stages is sent, one of which is `stage`."""
    group = getattr(stage, "_get_p2p_group", None)
    return stage.group if group is None else group(source, target)


def is_gathered(runtime: TorchRuntime, stage: PipelineStage) -> bool:
    """Return whether the runtime has the parameters of a stage whole, which replicas share, or has begun to gather."""
    index = stage.stage_index
    return index in runtime.unsharded_stages or bool(runtime.unshard_ops.get(index))


def reduce_nothing(module: FSDPModule) -> None:
    """Let backwards of a stage that replicas share reduce no gradients and keep its parameters, as in the runtime."""
    module.set_requires_gradient_sync(False)
    module.set_reshard_after_backward(False)
    if hasattr(module, "set_manual_backward_finalization"):  # from torch 2.15 on
        module.set_manual_backward_finalization(True)
    else:
        module.set_is_last_backward(False)


def expects_given_shapes(stage: PipelineStage) -> None:
    """Let a stage take the shapes that it was made with, without asking the others."""
    stage._inference_mode = InferenceMode.STATIC


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
