"""The profile of a model that never ran: memory and time of every distinct part."""

from typing import TYPE_CHECKING

from evenflow.cluster import parse_dtype
from evenflow.profiles.layer_entry import halves_entry
from evenflow.units import megabytes, milliseconds
from evenflow_torch.requests import ProfileRequest

if TYPE_CHECKING:  # loads torch
    from evenflow_torch.profile.model_profile import ModelProfile


def profile_fields(profile: "ModelProfile", request: ProfileRequest) -> dict[str, object]:
    """Return every distinct part under every recompute kind."""
    return {
        "name": profile.name,
        "sequence": request.sequence,
        "microbatch": request.microbatch,
        "tensor_parallel": request.tensor_parallel,
        "expert_parallel": request.expert_parallel,
        "token_dispatcher": request.token_dispatcher,
        "dtype": parse_dtype(request.dtype).short_name,
        "optimizer": request.optimizer,
        "elementwise": request.elementwise,
        "device": request.device,
        "accelerator": request.accelerator,
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
                "halves": None if part.times.halves is None else halves_entry(part.times.halves),
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
