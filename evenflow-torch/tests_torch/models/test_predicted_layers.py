"""What predictions count of a layer beside what its trace counts: both are of eager PyTorch."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from evenflow.cluster import Dtype, OperatorCost, accelerator_named  # noqa: E402
from evenflow.cluster.reached import Reached  # noqa: E402
from evenflow.fields import as_fields  # noqa: E402
from evenflow.predict.layer_work import layer_passes  # noqa: E402
from evenflow.predict.training import Degrees, Software, Training  # noqa: E402
from evenflow.predict.transformer import Transformer  # noqa: E402
from evenflow.predict.work import Operators, Spent, Work  # noqa: E402
from evenflow.profiles.transformer.config_file import transformer_of_config  # noqa: E402
from evenflow_torch.models.live_storage import ExecutedOperator  # noqa: E402
from evenflow_torch.models.part_trace import PartTrace, trace  # noqa: E402
from evenflow_torch.models.parts import Part  # noqa: E402
from evenflow_torch.models.training_row import read_decoder  # noqa: E402

SEQUENCE = 2048
SIZES: dict[str, object] = {
    "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 2, "num_attention_heads": 16, "head_dim": 128,
    "num_key_value_heads": 4, "vocab_size": 32000,
}  # fmt: skip
CONFIGS: dict[str, dict[str, object]] = {
    "llama": SIZES,
    "qwen3": SIZES,
    "mixtral": {**SIZES, "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None},
    "qwen3_moe": {**SIZES, "num_experts": 16, "num_experts_per_tok": 4, "moe_intermediate_size": 1408},
    "deepseek_v3": {
        **SIZES, "head_dim": 64, "num_key_value_heads": 16, "moe_intermediate_size": 512, "n_routed_experts": 16,
        "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 4, "topk_group": 2, "num_experts_per_tok": 4,
        "kv_lora_rank": 256, "q_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
    },
    "gpt2": {
        "n_embd": 2048, "n_layer": 2, "n_head": 16, "n_positions": SEQUENCE, "vocab_size": 50257,
        "activation_function": "gelu", "resid_pdrop": 0.1, "attn_pdrop": 0.0, "embd_pdrop": 0.0,
    },
}  # fmt: skip
PASSES = ("forward", "backward")


@dataclass(frozen=True, kw_only=True)
class Layer:
    """The last layer of a model, counted in both ways."""

    traced: PartTrace
    model: Transformer

    def operators(self, name: str) -> list[OperatorCost]:
        """Return the traced operators of a pass, without the addition to the gradients of earlier microbatches."""
        found: Iterable[ExecutedOperator] = getattr(self.traced, name)
        counted = [one.cost for one in found if not (name == "backward" and one.name == "aten.add_.Tensor")]
        return [part for one in counted for part in one.parts or (one,)]

    def work(self, name: str) -> list[Operators]:
        """Return what predictions have in that pass."""
        software = Software(fused_attention=True, fused_elementwise=False)
        training = Training(
            model=self.model, degrees=Degrees(), microbatch=1, global_batch=1, sequence=SEQUENCE, software=software
        )
        passes = layer_passes(training, self.model.further_kind)
        works: tuple[Work, ...] = getattr(passes, name)
        return [one for one in works if isinstance(one, Operators)]


def _part(kind: str) -> Part:
    config = {**CONFIGS[kind], "model_type": kind}
    if kind != "gpt2":
        row = read_decoder(
            as_fields(config, file=kind), sequence=SEQUENCE, microbatch=1, dtype=Dtype.BFLOAT16, name=kind
        )
        return row.body[-1]
    described = transformers.GPT2Config(**CONFIGS[kind], attn_implementation="sdpa")
    with torch.device("meta"):
        block = transformers.models.gpt2.modeling_gpt2.GPT2Block(described, layer_idx=1).to(torch.bfloat16).train()
        hidden = torch.empty(1, SEQUENCE, described.n_embd, dtype=torch.bfloat16)
    return Part(name=kind, module=block, inputs=(hidden,))


@pytest.fixture(scope="module", params=CONFIGS)
def layer(request: pytest.FixtureRequest) -> Layer:
    kind = request.param
    described = transformer_of_config(as_fields({**CONFIGS[kind], "model_type": kind}, file=kind), name=kind)
    return Layer(traced=trace(_part(kind), "none"), model=described.model)


@pytest.mark.parametrize("name", PASSES)
def test_matrix_products_have_equal_operations_to_the_digit(layer: Layer, name: str) -> None:
    products = [one for one in layer.operators(name) if one.flops and not one.is_fused_attention]
    expected = [one for one in layer.work(name) if one.spent is Spent.PRODUCTS]
    assert sum(one.flops for one in products) == sum(one.flops for one in expected)
    if name == "forward":  # backward, the gradients of products of one input are one there, with longer sums
        assert {one.depth for one in products} == {one.depth for one in expected}


@pytest.mark.parametrize("name", PASSES)
def test_attention_has_equal_operations(layer: Layer, name: str) -> None:
    (attention,) = (one for one in layer.operators(name) if one.is_fused_attention)
    (expected,) = (one for one in layer.work(name) if one.spent is Spent.ATTENTION)
    # Latent attention is traced with values padded from 128 to the 192 numbers of a query.
    padding = (192 + 192) / (192 + 128) if layer.model.latent else 1
    assert attention.flops == expected.flops * padding


DEVICE = replace(
    accelerator_named("a100"),
    reached=Reached(product_share=0.8, attention_share=0.8, memory_share=0.9, ramp_depth=0.0, operator_ns=40_000.0),
)
EAGER, WITH_EXPERTS = ((0.94, 1.0), (0.93, 1.0)), ((0.97, 1.0), (0.95, 1.07))
SHARES = {
    "llama": EAGER, "qwen3": EAGER, "mixtral": WITH_EXPERTS, "qwen3_moe": WITH_EXPERTS,
    "deepseek_v3": ((0.89, 1.0), (0.6, 0.7)), "gpt2": ((1.2, 1.5), (1.0, 1.25)),
}  # fmt: skip
"""Shares of the traced bytes, and of the traced time, that predictions have, at least and at most.

Less, since a trace reads the input of queries, keys and values, and of gate and up, once for each, and adds up as many
gradients; least in DeepSeek's, which also cuts rotary parts out of queries and keys and puts them back. Experts are
one operator, whose products have the bytes that predictions give them.
GPT-2's is more: models without gated MLPs are taken to compose their norms and activation of operators.
"""


@pytest.mark.parametrize("name", PASSES)
def test_bytes_and_times_are_near(layer: Layer, name: str) -> None:
    traced, expected = layer.operators(name), layer.work(name)
    moved = sum(one.moved_bytes for one in expected) / sum(one.moved_bytes for one in traced)
    time = sum(one.time_ns(DEVICE) for one in expected) / sum(one.time_ns(DEVICE) for one in traced)
    for share, (least, most) in zip((moved, time), SHARES[layer.model.name], strict=True):
        assert least <= share <= most
