"""Settings that a run's notes state as ``name=value``, by the names of Megatron-LM's command line."""

import re
from dataclasses import dataclass, replace

from evenflow.predict.training import PRODUCTS
from evenflow.predict.transformer import LatentAttention
from evenflow.profiles.measured.framework_words import is_fully_shared
from evenflow.profiles.measured.known_models import DEEPSEEK_LATENT
from evenflow.profiles.measured.run import MeasuredRun

_OFFLOADED = {
    "core_attn": ("core_attn",), "attn_norm": ("layernorm",), "mlp_norm": ("layernorm",), "expert_fc1": ("moe",),
    "moe_act": ("moe_act",),
}  # fmt: skip
"""Modules whose tensors wait on the host, which the device keeps no more than those that are computed again."""

_SAYS_RESERVED = "pytorch/torchtitan:"
"""Where runs are from whose memory is what the allocator reserved."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that the notes of a run state; None for those that they do not."""

    values: dict[str, str]

    def is_on(self, name: str) -> bool:
        """Whether a setting is stated to be on."""
        return self.values.get(name) == "True"

    @property
    def is_megatron(self) -> bool:
        """Whether the notes state settings of Megatron-LM, whose defaults hold for the others."""
        return "transformer-impl" in self.values

    @property
    def fused_attention(self) -> bool | None:
        """Whether attention does not write its scores."""
        if "attention-backend" in self.values:
            return self.values["attention-backend"] != "unfused"
        return self.values["transformer-impl"] != "local" if self.is_megatron else None

    @property
    def expert_tensor(self) -> int | None:
        """Ways that an expert's matrices are split."""
        return int(self.values["expert tensor parallel"]) if "expert tensor parallel" in self.values else None

    @property
    def dense_layers(self) -> int:
        """First layers without experts."""
        match = re.match(r"\(\[0\]\*(\d+)\+", self.values.get("moe-layer-freq", ""))
        return int(match[1]) if match else 0

    @property
    def shared_ffn(self) -> int:
        """Width of the shared experts together."""
        return int(self.values.get("moe-shared-expert-intermediate-size", "0"))

    def latent(self, head_dim: int) -> LatentAttention | None:
        """Latent attention with the narrow widths of DeepSeek-V3, and a rotary part half as wide as the rest."""
        if not self.is_on("multi-latent-attention"):
            return None
        return replace(DEEPSEEK_LATENT, rotary_dim=head_dim // 2, plain_dim=head_dim, value_dim=head_dim)


def settings_of(run: MeasuredRun) -> Settings:
    """Return the settings that the notes of `run` state."""
    settings = dict(re.findall(r"([a-z][a-z0-9-]+)=([^;\s]+)", run.notes or ""))
    tensor = re.search(r"expert tensor parallel (\d+)", run.notes or "")
    return Settings({**settings, **({"expert tensor parallel": tensor[1]} if tensor else {})})


def expert_tensor_of(run: MeasuredRun) -> int:
    """Return the tensor degree of experts: by default that of other layers in Megatron-LM, elsewhere one."""
    settings = settings_of(run)
    return settings.expert_tensor or ((run.tp or 1) if run.experts and settings.is_megatron else 1)


def recompute_modules(run: MeasuredRun) -> tuple[str, ...]:
    """Return what selective recomputation computes again: the stated modules.

    If none are stated: every second product and all between them in fully sharded training, else attention's scores.
    """
    match = re.search(r"recompute[-_]modules=\[([^]]*)\]", run.recompute_detail or "")
    names = re.findall(r"[a-z_]+", match[1]) if match else []
    offloaded = re.search(r"offload[-_]modules=\[([^]]*)\]", run.recompute_detail or "")
    for name in re.findall(r"[a-z_0-9]+", offloaded[1]) if offloaded else []:
        names += _OFFLOADED.get(name, ())
    usual = PRODUCTS if is_fully_shared(run) and not settings_of(run).is_megatron else "core_attn"
    return tuple(dict.fromkeys(names)) or (usual,)


def is_reserved(run: MeasuredRun) -> bool:
    """Whether memory is what the allocator reserved: the notes say so, or it is torchtitan that published it.

    Its logs print nothing else. [torchtitan/components/metrics.py, `max_reserved_gib`]
    """
    peak = settings_of(run).values.get("peak")
    return peak == "reserved" or (peak is None and (run.ref or "").startswith(_SAYS_RESERVED))


def is_read_from_device(run: MeasuredRun) -> bool:
    """Whether the notes say that memory is the device's own: with nvidia-smi, or in whole gigabytes, as it is then."""
    if settings_of(run).values.get("peak") == "device":
        return True
    return "nvidia-smi" in (run.notes or "") or "whole GB" in (run.notes or "")
