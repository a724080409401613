"""The profile of a model that never ran: memory and time of every distinct part."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenflow.cluster import Dtype
from evenflow.units import megabytes, milliseconds

if TYPE_CHECKING:  # loads torch
    from evenflow_torch.profile.model_profile import ModelProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSetting:
    """The microbatch, the device and the training that a model is profiled for."""

    sequence: int
    microbatch: int
    """Sequences of a microbatch."""
    tensor_parallel: int
    dtype: Dtype
    optimizer: str
    elementwise: str
    """Whether elementwise operators are ``fused``, or ``eager``: one by one."""
    device: str
    accelerator: str | None
    efficiency: float | None
    """Share of the accelerator's peak that large matrix products reach; None: the accelerator's own."""


def profile_fields(profile: "ModelProfile", setting: ProfileSetting) -> dict[str, object]:
    """Return every distinct part under every recompute kind."""
    return {
        "name": profile.name,
        "sequence": setting.sequence,
        "microbatch": setting.microbatch,
        "tensor_parallel": setting.tensor_parallel,
        "dtype": setting.dtype.short_name,
        "optimizer": setting.optimizer,
        "elementwise": setting.elementwise,
        "device": setting.device,
        "accelerator": setting.accelerator,
        "parts": [
            {
                "name": part.name,
                "type": role,
                "layers": count,
                "parameters": part.num_parameters,
                "parameter_mb": megabytes(part.parameter_bytes),
                "forward_flops": part.forward_flops,
                "forward_ms": milliseconds(part.times.forward_ns),
                "weight_ms": milliseconds(part.times.weight_ns),
                "until_weight_mb": megabytes(part.until_weight_bytes),
                "spread": part.times.spread,
                "recompute": {
                    kind: {
                        "activation_mb": megabytes(size),
                        "working_mb": megabytes(part.working_bytes[kind]),
                        "backward_ms": milliseconds(part.times.backward_ns[kind]),
                    }
                    for kind, size in part.activation_bytes.items()
                },
            }
            for role, part, count in profile.parts
        ],
        "notes": list(profile.notes),
    }
