"""Facts of well-known models that the columns of a measured run have no place for."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from evenflow.predict.transformer import LatentAttention


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The facts of a published model configuration beside its usual sizes."""

    latent: LatentAttention | None = None
    dense_layers: int = 0
    """First layers without experts."""
    window: int = 0
    """Tokens that every second layer sees; 0: all."""
    windows_all: bool = False
    """Whether every layer has the window."""
    groups: int = 1
    """Groups of experts."""
    chosen_groups: int = 1
    """Groups that the experts of a token are in."""
    norms_heads: bool = False
    """Whether each head's queries and keys are normed."""


DEEPSEEK_LATENT = LatentAttention(
    query_rank=1536, key_value_rank=512, rotary_dim=64, plain_dim=128, value_dim=128
)  # fmt: skip
"""Of DeepSeek-V3. [arXiv:2412.19437, §4.2]"""
_LATENT_LITE = LatentAttention(query_rank=0, key_value_rank=512, rotary_dim=64, plain_dim=128, value_dim=128)
_KNOWN: Mapping[str, Known] = {
    "deepseek(v3|r1)": Known(latent=DEEPSEEK_LATENT, dense_layers=3, groups=8, chosen_groups=4),
    "deepseekv2lite": Known(latent=_LATENT_LITE, dense_layers=1),
    "deepseekv2": Known(latent=DEEPSEEK_LATENT, dense_layers=1, groups=8, chosen_groups=3),
    "kimik2": Known(latent=DEEPSEEK_LATENT, dense_layers=1),
    "moonlight": Known(latent=_LATENT_LITE, dense_layers=1),
    "glm4.?5air": Known(dense_layers=1),
    "glm4.?5": Known(dense_layers=3),
    "gptoss": Known(window=128),
    r"mistral7b(?!.*v0\.[23])": Known(window=4096, windows_all=True),
    "qwen3": Known(norms_heads=True),
}
"""By a pattern of the name without blanks and dashes; the first that is found counts. [the models' config.json]"""


def known_model(name: str) -> Known:
    """Return what is known of the model called `name`; nothing of a model that is not listed.

    >>> known_model("DeepSeek-V3 671B").dense_layers
    3
    """
    short = re.sub(r"[\s_-]", "", name.lower())
    return next((known for pattern, known in _KNOWN.items() if re.search(pattern, short)), Known())
