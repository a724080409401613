"""The profile of a model that never ran: memory and time of every distinct part."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from evenflow.units import megabytes, milliseconds

if TYPE_CHECKING:  # loads torch
    from evenflow.profiles.from_model.model_profile import ModelProfile


def profile_fields(profile: "ModelProfile", *, setting: Mapping[str, object]) -> dict[str, object]:
    """Return every distinct part under every recompute kind; `setting` is what was asked for, in fields of its own."""
    return {
        "name": profile.name,
        **setting,
        "constant_mb": megabytes(profile.network().constant_bytes),
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
