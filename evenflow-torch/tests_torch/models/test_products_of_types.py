"""Operations of the products of layers, beside those that run in the modules of transformers."""

import json
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode, flop_registry  # noqa: E402

from evenflow.fields import as_fields  # noqa: E402
from evenflow.predict.end_work import tower_passes  # noqa: E402
from evenflow.predict.layer_work import layer_passes  # noqa: E402
from evenflow.predict.tower import tower_parts  # noqa: E402
from evenflow.predict.training import Degrees, Software, Training  # noqa: E402
from evenflow.predict.transformer import Transformer  # noqa: E402
from evenflow.predict.work import Operators  # noqa: E402
from evenflow.profiles.transformer.config_file import transformer_of_config  # noqa: E402

TOKENS, IMAGE_TOKENS = 96, 40
SIZES = {
    "hidden_size": 128, "intermediate_size": 320, "num_attention_heads": 8, "num_key_value_heads": 4,
    "vocab_size": 512, "pad_token_id": 0,
}  # fmt: skip
WIDE = {**SIZES, "head_dim": 32}
TYPES: dict[str, tuple[dict[str, Any], float]] = {
    "dory": ({**WIDE, "num_hidden_layers": 7, "n_input_layers": 2, "n_output_layers": 1, "sliding_window": 64}, 0),
    "hrm_text": ({**WIDE, "num_hidden_layers": 3}, 0),
    "mllama": ({**SIZES, "num_hidden_layers": 5, "cross_attention_layers": [1, 3]}, 0),
    "reformer": (
        {
            "hidden_size": 128, "num_attention_heads": 4, "attention_head_size": 24, "feed_forward_size": 320,
            "vocab_size": 512, "is_decoder": True, "axial_pos_embds": False, "lsh_attn_chunk_length": 8,
            "local_attn_chunk_length": 16, "num_hashes": 2, "lsh_num_chunks_before": 2, "pad_token_id": 0,
        },
        0,
    ),
    "xlnet": ({"d_model": 128, "n_layer": 3, "n_head": 8, "d_inner": 320, "vocab_size": 512}, 0),
    "zamba": ({**SIZES, "num_hidden_layers": 9, "attn_layer_period": 3, "attn_layer_offset": 1}, 0.025),
    "zamba2": (
        {
            **SIZES, "num_key_value_heads": 8, "num_hidden_layers": 7, "num_mem_blocks": 2, "adapter_rank": 16,
            "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid", "hybrid", "mamba", "mamba"],
            "use_shared_attention_adapter": True, "chunk_size": 32, "mamba_d_state": 32,
        },
        0.01,
    ),
    "inkling2_loop_text": (
        {
            **WIDE, "num_hidden_layers": 7, "n_routed_experts": 4, "num_experts_per_tok": 4,
            "moe_intermediate_size": 320, "swa_num_attention_heads": 8, "swa_num_key_value_heads": 4,
            "swa_head_dim": 32, "sliding_window_size": 64, "d_rel": 8, "rel_extent": 64, "loop_gate_rank": 16,
            "n_layers_per_attn_res_block": 2, "loop_layer_index_start": 2, "loop_layer_index_end": 6,
        },
        0.01,
    ),
}  # fmt: skip
"""Small models, and how far off the count may be: a state that is carried along counts as no product."""
BODIES = {"reformer": "reformer", "xlnet": "transformer"}
"""The module with all layers, where it is not the model's ``model``."""


@pytest.mark.parametrize("model_type", TYPES)
def test_products_are_those_that_run(model_type: str) -> None:
    """Several passes, blocks that layers share and attention to images, each as often as it runs."""
    fields, most_off = TYPES[model_type]
    sees_images = model_type == "mllama"
    name = "mllama_text_model" if sees_images else model_type
    config = transformers.AutoConfig.for_model(name, **fields)
    read = read_config(config)
    auto = transformers.MllamaForCausalLM._from_config if sees_images else transformers.AutoModelForCausalLM.from_config
    model = auto(config, attn_implementation="eager", experts_implementation="eager").float()
    images = {"cross_attention_states": torch.zeros(1, IMAGE_TOKENS, 128)} if sees_images else {}
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        getattr(model, BODIES.get(model_type, "model"))(
            torch.zeros(1, TOKENS, dtype=torch.long), use_cache=False, **images
        )
    assert flops(with_images(read)) == pytest.approx(counter.get_total_flops(), rel=most_off)


class Products(TorchDispatchMode):
    """Counts the operations of all products that run."""

    flops = 0

    def __torch_dispatch__(self, operator: Any, _types: Any, inputs: Any = (), options: Any = None) -> Any:
        result = operator(*inputs, **(options or {}))
        count = flop_registry.get(operator._overloadpacket)
        self.flops += 0 if count is None else count(*inputs, **(options or {}), out_val=result)
        return result


def test_backwards_of_reversible_layers_compute_their_forwards_again() -> None:
    """All but the hashes, which the forward keeps; two products of the backward for each of the forward."""
    config = transformers.AutoConfig.for_model("reformer", **TYPES["reformer"][0])
    read = read_config(config)
    model = transformers.AutoModelForCausalLM.from_config(config).float().train().reformer
    with Products() as counter:  # a backward within a backward has no module that FlopCounterMode could name
        model(torch.zeros(1, TOKENS, dtype=torch.long), use_cache=False)[0].sum().backward()
    passes = [layer_passes(alone(read), kind) for kind in read.kinds]
    again = sum(work.flops for one in passes for work in one.forward if isinstance(work, Operators))
    backward = sum(work.flops for one in passes for work in one.backward if isinstance(work, Operators))
    assert counter.flops == flops(read) + again + backward
    assert backward == 2 * again


def test_layers_of_bytes_and_of_patches_each_have_their_tokens() -> None:
    """Two patches, of one byte and of all others, which a model without gradients has chosen before."""
    small = {"num_attention_heads": 4, "num_key_value_heads": 2}
    of_bytes = {**small, "hidden_size": 64, "hidden_size_global": 192, "cross_attn_k": 2, "num_hidden_layers": 2}
    config = transformers.BltConfig(
        encoder_config={**of_bytes, "intermediate_size": 96}, decoder_config={**of_bytes, "intermediate_size": 160},
        global_config={**small, "hidden_size": 192, "num_hidden_layers": 3, "intermediate_size": 224},
        patcher_config={**small, "hidden_size": 48, "num_hidden_layers": 2, "intermediate_size": 80},
        encoder_hash_byte_group_vocab=100, local_attention_window_len=TOKENS, patching_threshold=1e9,
    )  # fmt: skip
    read = read_config(config)
    assert read.patches is not None
    read = replace(read, patches=replace(read.patches, size=TOKENS / 2))
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().model
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.zeros(1, TOKENS, dtype=torch.long), use_cache=False)
    before = (work for part in tower_parts(alone(read)) for work in tower_passes(part).forward)
    chosen = sum(work.flops for work in before if isinstance(work, Operators))
    assert chosen > 0
    assert flops(read) + chosen == counter.get_total_flops()


def read_config(config: Any) -> Transformer:
    """What evenflow reads of a configuration of transformers."""
    values = json.loads(config.to_json_string(use_diff=False)) | {"model_type": config.model_type}
    return transformer_of_config(as_fields(values, file="config.json")).model


def with_images(model: Transformer) -> Transformer:
    """The model with tokens of images beside its sequence, if any of its layers see these."""
    return model if model.images is None else replace(model, images=replace(model.images, tokens=IMAGE_TOKENS))


def flops(model: Transformer) -> float:
    """The operations of the products of a forward through all layers, with scores of every pair of tokens."""
    works = (work for kind in model.kinds for work in layer_passes(alone(model), kind).whole_forward)
    return sum(work.flops for work in works if isinstance(work, Operators))


def alone(model: Transformer) -> Training:
    """One sequence on one device, whose attention writes its scores."""
    return Training(
        model=model, degrees=Degrees(), microbatch=1, global_batch=1, sequence=TOKENS,
        software=Software(fused_attention=False),
    )  # fmt: skip
