"""The examples of Nemotron 3: parameters by hand, in all and those that a token meets."""

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from evenflow.predict.parameters import model_parameters
from evenflow.profiles.transformer.config_file import read_transformer

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "configs"
VOCABULARY, HEAD, STATE, GROUPS, KERNEL, MAMBA_HEAD = 131072, 128, 128, 8, 4, 64


@dataclass(frozen=True)
class Sizes:
    """Sizes of a model, with 2 heads of keys and values and a shared expert twice as wide as the others."""

    hidden: int
    heads: int
    mamba_heads: int
    experts: int
    active: int
    ffn: int
    latent: int
    """Width that experts read and give; 0: the hidden size."""

    def mamba(self) -> int:
        inner, states = self.mamba_heads * MAMBA_HEAD, 2 * GROUPS * STATE
        products = self.hidden * (2 * inner + states + self.mamba_heads) + inner * self.hidden
        return products + (inner + states) * (KERNEL + 1) + 3 * self.mamba_heads + inner

    def attention(self) -> int:
        return 2 * self.hidden * self.heads * HEAD + 2 * self.hidden * 2 * HEAD

    def mixture(self, experts: int) -> int:
        narrow = 2 * self.hidden * self.latent
        routed = experts * 2 * (self.latent or self.hidden) * self.ffn
        return self.hidden * self.experts + narrow + routed + 2 * self.hidden * 2 * self.ffn

    def total(self, layers: Counter[str], *, experts: int) -> int:
        of_layers = layers["M"] * self.mamba() + layers["*"] * self.attention() + layers["E"] * self.mixture(experts)
        return of_layers + self.hidden * (layers.total() + 1) + 2 * self.hidden * VOCABULARY


NANO = Sizes(hidden=2688, heads=32, mamba_heads=64, experts=128, active=6, ffn=1856, latent=0)
SUPER = Sizes(hidden=4096, heads=32, mamba_heads=128, experts=512, active=22, ffn=2688, latent=1024)
ULTRA = Sizes(hidden=8192, heads=64, mamba_heads=256, experts=512, active=22, ffn=5120, latent=2048)


@pytest.mark.parametrize(
    ("name", "sizes", "layers", "billions", "active_billions"),
    [
        ("nano_30b", NANO, Counter({"M": 23, "E": 23, "*": 6}), 31.6, 3.6),
        ("super_120b", SUPER, Counter({"M": 40, "E": 40, "*": 8}), 120.7, 12.8),
        ("ultra_550b", ULTRA, Counter({"M": 48, "E": 48, "*": 12}), 549.3, 56.1),
    ],
)
def test_parameters_in_all_and_of_a_token(name, sizes, layers, billions, active_billions):
    model = replace(read_transformer(EXAMPLES / f"nemotron3_{name}.json").model, predicted_tokens=0)
    assert model.experts is not None
    total = sizes.total(layers, experts=sizes.experts)
    assert model_parameters(model) == total
    assert round(total / 1e9, 1) == billions
    few = replace(model, experts=replace(model.experts, count=model.experts.active))
    of_router = layers["E"] * (model.experts.count - model.experts.active) * sizes.hidden
    active = model_parameters(few) + of_router
    assert active == sizes.total(layers, experts=sizes.active)
    assert round(active / 1e9, 1) == active_billions


@pytest.mark.parametrize("name", ["super_120b", "ultra_550b"])
def test_one_further_token_is_predicted_by_attention_and_experts(name):
    model = read_transformer(EXAMPLES / f"nemotron3_{name}.json").model
    assert model.predicted_tokens == 1
    kind = model.further_kind
    assert (kind.attention, kind.experts, kind.state) == (True, True, False)
