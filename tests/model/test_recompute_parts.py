import pytest

from evenflow.model import BOTH, COMM, FULL, NONE, SELECT, is_kind_name, ordered_kinds
from evenflow.model.recompute_parts import RECOMPUTE_PARTS, recomputed_parts

LLAMA = [
    "", "self_attn", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "mlp", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "mlp.act_fn",
    "input_layernorm", "post_attention_layernorm",
]  # fmt: skip
QWEN3 = [*LLAMA, "self_attn.q_norm", "self_attn.k_norm"]
GPT2 = ["", "ln_1", "attn", "attn.c_attn", "ln_2", "mlp", "mlp.c_fc"]
TORCH_ENCODER = ["", "self_attn", "self_attn.out_proj", "linear1", "linear2", "norm1", "norm2", "dropout"]


@pytest.mark.parametrize(
    ("kind", "submodules", "parts"),
    [
        (NONE, LLAMA, ()),
        (SELECT, LLAMA, ("self_attn",)),
        (COMM, LLAMA, ("input_layernorm", "post_attention_layernorm")),
        (BOTH, LLAMA, ("self_attn", "input_layernorm", "post_attention_layernorm")),
        (FULL, LLAMA, ("",)),
        (COMM, QWEN3, ("input_layernorm", "post_attention_layernorm", "self_attn.q_norm", "self_attn.k_norm")),
        (BOTH, QWEN3, ("self_attn", "input_layernorm", "post_attention_layernorm")),
        (SELECT, GPT2, ("attn",)),
        (COMM, GPT2, ("ln_1", "ln_2")),
        (BOTH, TORCH_ENCODER, ("self_attn", "norm1", "norm2")),
        (SELECT, ["", "mlp"], ()),
    ],
)
def test_parts_of_known_layers(kind: str, submodules: list[str], parts: tuple[str, ...]) -> None:
    assert recomputed_parts(kind, submodules) == parts


@pytest.mark.parametrize("kind", RECOMPUTE_PARTS)
@pytest.mark.parametrize("submodules", [LLAMA, QWEN3, GPT2, TORCH_ENCODER])
def test_no_part_is_inside_another(kind: str, submodules: list[str]) -> None:
    parts = recomputed_parts(kind, submodules)
    assert not any(inner.startswith(f"{outer}.") for outer in parts for inner in parts)


@pytest.mark.parametrize(
    ("kind", "names"),
    [("mlp", ("mlp",)), ("mlp+attn.q_norm", ("attn.q_norm", "mlp")), ("attn+attn.q_norm", ("attn",)), ("mine", ())],
)
def test_a_kind_without_patterns_is_a_set_of_names(kind: str, names: tuple[str, ...]) -> None:
    assert recomputed_parts(kind, ["", "attn", "attn.q_norm", "mlp"]) == names


def test_a_set_stands_before_what_is_in_it() -> None:
    kinds = {"full", "layernorm", "layernorm+mlp", "mlp", "select", "layernorm+mlp+moe", "none"}
    order = ("full", "select", "layernorm+mlp+moe", "layernorm+mlp", "layernorm", "mlp", "none")
    assert ordered_kinds(kinds) == order
    on_host = {"full+offload", "offload", "select+offload", "none"}
    assert ordered_kinds(on_host) == ("full+offload", "offload", "select+offload", "none")


@pytest.mark.parametrize(
    ("name", "is_kind"), [("mlp.0+act", True), ("a.b", True), ("a b", False), ("", False), ("a+", False)]
)
def test_names_of_kinds(name: str, is_kind: bool) -> None:
    assert is_kind_name(name) == is_kind
