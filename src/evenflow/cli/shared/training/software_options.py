"""The options that say what a framework does with the same mathematics."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from evenflow.asking import Metadata, asked, optional
from evenflow.cli.shared.training.sections import SOFTWARE
from evenflow.predict.overlaps import OVERLAPS, overlaps_named, usual
from evenflow.predict.training import CONTEXT_EXCHANGES, Software


def _way(option: str, choices: tuple[str, ...], help_text: str) -> Metadata:
    return asked(option=option, section=SOFTWARE, choices=choices, shows_default=True, help=help_text)


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareOptions:
    """What was given of the framework's ways."""

    context_exchange: str = field(
        default="ring",
        metadata=_way(
            "--context-exchange",
            tuple(CONTEXT_EXCHANGES),
            "How devices that share a sequence exchange keys and values.",
        ),
    )
    token_dispatcher: str = field(
        default="alltoall",
        metadata=_way(
            "--token-dispatcher",
            ("alltoall", "deepep"),
            "How tokens go to experts: a copy for each expert, or one for each node (DeepEP, HybridEP).",
        ),
    )
    attention: str = field(
        default="fused",
        metadata=_way(
            "--attention",
            ("fused", "unfused"),
            "One kernel that keeps no scores (FlashAttention), or operator by operator.",
        ),
    )
    elementwise: str = field(
        default="fused",
        metadata=_way(
            "--elementwise",
            ("fused", "eager"),
            "Norms, activation functions and residuals: fused or compiled, or one by one.",
        ),
    )
    cuda_graphs: bool = optional(
        "--cuda-graphs", default=False, section=SOFTWARE, help="Launches are captured in graphs."
    )
    overlap: tuple[str, ...] = field(
        metadata=asked(
            option="--overlap",
            section=SOFTWARE,
            metavar="NAME,…",
            read=overlaps_named,
            typed_default=usual(OVERLAPS),
            shows_default=True,
            help=f"What runs under computation: some of {', '.join(OVERLAPS)}; or none.",
        )
    )
    gradient_dtype: str = field(
        default="fp32",
        metadata=_way(
            "--gradient-dtype",
            ("fp32", "bf16"),
            "Number format in which gradients are kept and reduced.",
        ),
    )

    def software(self, usual: Software | None = None, *, given: Collection[str] = ()) -> Software:
        """Return what the options say; beside the `usual` of a framework only those that were `given`."""
        gradient_bytes = 4 if self.gradient_dtype == "fp32" else 2
        said: dict[str, dict[str, Any]] = {
            "attention": {"fused_attention": self.attention == "fused"},
            "elementwise": {"fused_elementwise": self.elementwise == "fused"},
            "cuda_graphs": {"captured_graphs": self.cuda_graphs},
            "overlap": {f"overlaps_{name}": name in self.overlap for name in OVERLAPS},
            "token_dispatcher": {"sends_tokens_once": self.token_dispatcher == "deepep"},
            "gradient_dtype": {"gradient_bytes": gradient_bytes, "reduced_bytes": gradient_bytes},
        }
        taken = {
            key: value for name, one in said.items() if usual is None or name in given for key, value in one.items()
        }
        return replace(usual or Software(), **taken)


def written_out(software: Software) -> dict[str, str]:
    """Return the values that the options have for what a framework does, by the names of their parameters."""
    overlaps = [name for name in OVERLAPS if getattr(software, f"overlaps_{name}")]
    return {
        "token_dispatcher": "deepep" if software.sends_tokens_once else "alltoall",
        "attention": "fused" if software.fused_attention else "unfused",
        "elementwise": "fused" if software.fused_elementwise else "eager",
        "overlap": ",".join(overlaps) or "none",
        "gradient_dtype": "fp32" if software.gradient_bytes == 4 else "bf16",
    }
