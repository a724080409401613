"""The options that say what a framework does with the same mathematics."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import click

from evenflow.cli.shared.option_groups import grouped
from evenflow.cli.shared.overlaps import OVERLAPS, OverlapList, usual
from evenflow.cli.shared.training.sections import of_software
from evenflow.predict.training import CONTEXT_EXCHANGES, Software

_OPTIONS = (
    of_software(
        "--context-exchange",
        type=click.Choice(list(CONTEXT_EXCHANGES)),
        default="ring",
        show_default=True,
        help="How devices that share a sequence exchange keys and values.",
    ),
    of_software(
        "--token-dispatcher",
        type=click.Choice(["alltoall", "deepep"]),
        default="alltoall",
        show_default=True,
        help="How tokens go to experts: a copy for each expert, or one for each node (DeepEP, HybridEP).",
    ),
    of_software(
        "--attention",
        type=click.Choice(["fused", "unfused"]),
        default="fused",
        show_default=True,
        help="One kernel that keeps no scores (FlashAttention), or operator by operator.",
    ),
    of_software(
        "--elementwise",
        type=click.Choice(["fused", "eager"]),
        default="fused",
        show_default=True,
        help="Norms, activation functions and residuals: fused or compiled, or one by one.",
    ),
    of_software("--cuda-graphs", is_flag=True, help="Launches are captured in graphs."),
    of_software(
        "--overlap",
        type=OverlapList(),
        default=usual(OVERLAPS),
        show_default=True,
        help=f"What runs under computation: some of {', '.join(OVERLAPS)}; or none.",
    ),
    of_software(
        "--gradient-dtype",
        type=click.Choice(["fp32", "bf16"]),
        default="fp32",
        show_default=True,
        help="Number format in which gradients are kept and reduced.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareOptions:
    """What was given of the framework's ways."""

    context_exchange: str
    token_dispatcher: str
    attention: str
    elementwise: str
    cuda_graphs: bool
    overlap: tuple[str, ...]
    gradient_dtype: str

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


def software_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options to a command, which gets them as `behaviour`."""
    return grouped(command, _OPTIONS, name="behaviour", made=SoftwareOptions)
