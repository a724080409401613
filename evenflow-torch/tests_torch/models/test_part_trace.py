import pytest
import torch

from evenflow.cluster.dtypes import Dtype
from evenflow.fields import as_fields
from evenflow.model import FULL, NONE
from evenflow_torch.models.checkpointing import recomputing
from evenflow_torch.models.experts.library import as_one_operator
from evenflow_torch.models.live_storage import StorageLog
from evenflow_torch.models.made_tensors import maker_of_values
from evenflow_torch.models.part_trace import PartTrace, source, trace
from evenflow_torch.models.parts import Part
from evenflow_torch.models.training_row import read_decoder
from tests_torch.models.layers import GptLayer, gpt_part, llama_config

ALL_KINDS = ("none", "comm", "select", "both", "full")


def decoder(*, sequence: int = 32, microbatch: int = 1, dtype: Dtype = Dtype.BFLOAT16, **sizes: object):
    config = as_fields(llama_config(**sizes), file="config.json")
    return read_decoder(config, sequence=sequence, microbatch=microbatch, dtype=dtype)


def on_real_tensors(part: Part, kind: str):
    return trace(part, kind, make=maker_of_values(torch.device("cpu"), part.index_limit), fake=False)


def costs(found: PartTrace) -> object:
    """All but the numbers of storages, which depend on how inputs were made."""
    operators = [(one.name, one.cost) for one in (*found.forward, *found.backward, *found.weight)]
    return operators, found.activation_bytes, found.until_weight_bytes, found.working_bytes


@pytest.mark.parametrize("dtype", [Dtype.BFLOAT16, Dtype.FLOAT32])
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_fake_tensors_say_what_real_ones_do(kind: str, dtype: Dtype) -> None:
    layer = decoder(dtype=dtype, microbatch=2).body[0]
    assert trace(layer, kind) == on_real_tensors(layer, kind)


@pytest.mark.parametrize("sizes", [{}, {"tie_word_embeddings": True}])
def test_ends_of_the_model_too(sizes: dict[str, object]) -> None:
    parts = decoder(**sizes)
    for end in (*parts.head, *parts.tail):
        assert costs(trace(end, NONE)) == costs(on_real_tensors(end, NONE))


def test_mixture_of_experts_too() -> None:
    # Which rows an expert gets depends on values, how many there are in all does not.
    layer = decoder(model_type="mixtral", num_local_experts=4).body[0]
    fake = trace(layer, NONE)
    with as_one_operator():
        real = on_real_tensors(layer, NONE)
    assert (fake.activation_bytes, fake.until_weight_bytes) == (real.activation_bytes, real.until_weight_bytes)


def test_activation_of_a_llama_layer_by_hand() -> None:
    # Kept by eager PyTorch in 16 bits, for a token, with width h, keys and values k wide, MLP width f, a heads:
    # two norms: input and its square's root in 32 bits, normalised, scaled       2 (4 h + 4 + 2 h + 2 h)
    # attention: rotated queries and keys, values, result, 32-bit log-sum a head  2 h + 2 k + 2 k + 2 h + 4 a
    # MLP: gate, its activation, up, their product                                4 · 2 f
    h, k, f, a, tokens = 64, 32, 160, 4, 2 * 32
    found = trace(decoder(microbatch=2).body[0], NONE)
    assert found.activation_bytes == tokens * (20 * h + 8 + 4 * k + 4 * a + 8 * f)


def test_full_recompute_keeps_the_input() -> None:
    tokens, width = 32, 64
    assert trace(decoder().body[0], FULL).activation_bytes == 2 * tokens * width


def test_gpt_layer_of_the_literature() -> None:
    # 34 h + 5 a s bytes a token [arXiv:2205.05198, §4.1], and 4 for the mean and deviation of either norm;
    # the weight gradients need 32 h [arXiv:2401.10241, table 1], and the finished ones of the norms wait to be added;
    # forward 24 h² + 4 s h operations, twice that backward.
    h, a, s, b = 32, 4, 16, 2
    found = trace(gpt_part(width=h, heads=a, sequence=s, batch=b), NONE)
    assert found.activation_bytes == s * b * (34 * h + 5 * a * s + 8)
    assert found.until_weight_bytes == s * b * 32 * h + 4 * 2 * h
    assert sum(operator.cost.flops for operator in found.forward) == s * b * (24 * h * h + 4 * s * h)
    assert sum(operator.cost.flops for operator in found.backward) == 2 * s * b * (24 * h * h + 4 * s * h)
    assert sum(operator.cost.flops for operator in found.weight) == s * b * 24 * h * h


def test_causal_attention_counts_half() -> None:
    h, k, f, s = 64, 32, 160, 32
    found = trace(decoder(sequence=s).body[0], NONE)
    matrices = 2 * h * (2 * h + 2 * k + 3 * f)
    assert sum(operator.cost.flops for operator in found.forward) == s * (matrices + 4 * s * h // 2)
    assert sum(operator.cost.flops for operator in found.backward) == s * (2 * matrices + 10 * s * h // 2)
    assert sum(operator.cost.flops for operator in found.weight) == s * matrices


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_recomputing_adds_operations_and_keeps_less(kind: str) -> None:
    layer = decoder().body[0]
    plain, found = trace(layer, NONE), trace(layer, kind)
    assert found.forward == plain.forward
    backwards = [sum(operator.cost.flops for operator in one.backward) for one in (found, plain)]
    again = backwards[0] - backwards[1]
    attention = 32 * (2 * 64 * (2 * 64 + 2 * 32) + 2 * 32 * 64)
    # A whole layer is computed again up to its last matrix product, whose result nothing needs.
    assert again == {
        "none": 0, "comm": 0, "select": attention - 2 * 32 * 64 * 64, "both": attention - 2 * 32 * 64 * 64,
        "full": sum(operator.cost.flops for operator in plain.forward) - 2 * 32 * 64 * 160,
    }[kind]  # fmt: skip
    assert (found.activation_bytes < plain.activation_bytes) == (kind != NONE)


def test_autograd_for_the_input_alone_does_the_same_work() -> None:
    layer = GptLayer(32, 4)
    value, token = torch.randn(1, 16, 32), torch.zeros((), requires_grad=True)
    result = layer(source(token, [value.clone()], []))
    gradient = torch.ones_like(result)
    with StorageLog() as log:
        torch.autograd.grad([result], [token], [gradient], allow_unused=True)
    found = trace(gpt_part(width=32, heads=4, sequence=16, dtype=torch.float32), NONE)
    weight = set(found.weight)
    expected = [(one.name, one.cost.flops) for one in found.backward if one not in weight]
    assert sorted((one.name, one.cost.flops) for one in log.operators) == sorted(expected)


def test_the_first_part_has_only_weight_gradients() -> None:
    found = trace(decoder().head[0], NONE)
    assert found.backward == found.weight != ()


def test_attention_with_narrow_values_keeps_no_scores() -> None:
    sizes = {
        "model_type": "deepseek_v3", "num_key_value_heads": 4, "n_routed_experts": 4, "n_group": 1, "topk_group": 1,
        "num_experts_per_tok": 2, "moe_intermediate_size": 32, "first_k_dense_replace": 1, "q_lora_rank": 32,
        "kv_lora_rank": 32, "qk_nope_head_dim": 16, "qk_rope_head_dim": 16, "v_head_dim": 16,
    }  # fmt: skip
    short, long = (trace(decoder(sequence=s, **sizes).body[0], NONE).activation_bytes for s in (64, 128))
    assert long == 2 * short


def test_nothing_is_changed() -> None:
    layer = GptLayer(16, 2)
    before = {name: tensor.clone() for name, tensor in layer.named_parameters()}
    with recomputing(layer, FULL):
        pass
    trace(Part(name="gpt", module=layer, inputs=(torch.zeros(1, 4, 16),)), FULL)
    assert "forward" not in vars(layer)
    assert all(torch.equal(before[name], tensor) for name, tensor in layer.named_parameters())
    assert all(parameter.grad is None for parameter in layer.parameters())
