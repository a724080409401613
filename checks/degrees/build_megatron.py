"""What megatron-core builds of degrees: the parameters of the first layer and of the embedding on the first device.

Run by `check.py` in the environment that has megatron-core, on its own code, on torch's fake process group. Without a
GPU there are no streams and no devices: asking for them gives nothing. Its local attention has no context ranks, which
have whole layers: the groups have them, the layers do not know.
"""

import warnings
from typing import Any

warnings.filterwarnings("ignore")

import megatron.core  # noqa: E402, F401
import torch  # noqa: E402
from answers import answer  # noqa: E402
from megatron.core import parallel_state  # noqa: E402
from megatron.core.models.gpt import GPTModel  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.transformer import TransformerConfig  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402

torch.cuda.Stream = lambda *args, **keywords: None
torch.cuda.current_device = lambda: "cpu"


def build(case: dict[str, Any]) -> dict[str, Any]:
    """Build the first device of a case."""
    sizes, model = case["sizes"], case["model"]
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=case["devices"])
    try:
        parallel_state.initialize_model_parallel(
            tensor_model_parallel_size=sizes["tensor"],
            pipeline_model_parallel_size=sizes["pipeline"],
            context_parallel_size=sizes["context"],
            expert_model_parallel_size=sizes["expert"],
            expert_tensor_parallel_size=sizes["expert_tensor"],
            create_gloo_process_groups=False,
        )
        layers = GPTModel(
            config=configuration(sizes, model),
            transformer_layer_spec=get_gpt_layer_local_spec(
                num_experts=model["experts"] or None, moe_grouped_gemm=False, normalization="RMSNorm"
            ),
            vocab_size=model["vocabulary"],
            max_sequence_length=64,
            pre_process=True,
            post_process=sizes["pipeline"] == 1,
            position_embedding_type="rope",
            share_embeddings_and_output_weights=False,
        )
        first = dict(layers.decoder.layers[0].named_parameters())
        return {
            "layers": len(layers.decoder.layers),
            "dense": sum(one.numel() for name, one in first.items() if ".experts." not in name),
            "expert": sum(one.numel() for name, one in first.items() if ".experts." in name),
            "words": layers.embedding.word_embeddings.weight.shape[0],
            "data": parallel_state.get_data_parallel_world_size(),
            "expert_data": parallel_state.get_expert_data_parallel_world_size(),
        }
    finally:
        parallel_state.destroy_model_parallel()
        torch.distributed.destroy_process_group()


def configuration(sizes: dict[str, int], model: dict[str, int]) -> TransformerConfig:
    """Return the configuration of a small model."""
    return TransformerConfig(
        num_layers=model["layers"],
        hidden_size=model["hidden"],
        num_attention_heads=model["heads"],
        num_query_groups=model["kv_heads"],
        kv_channels=model["head_dim"],
        ffn_hidden_size=model["ffn"],
        num_moe_experts=model["experts"] or None,
        moe_ffn_hidden_size=model["expert_ffn"] or None,
        moe_router_topk=2,
        moe_token_dispatcher_type="alltoall",
        tensor_model_parallel_size=sizes["tensor"],
        pipeline_model_parallel_size=sizes["pipeline"],
        expert_model_parallel_size=sizes["expert"],
        expert_tensor_parallel_size=sizes["expert_tensor"],
        gated_linear_unit=True,
        activation_func=torch.nn.functional.silu,
        add_bias_linear=False,
        normalization="RMSNorm",
        pipeline_dtype=torch.float32,
        use_cpu_initialization=True,
        hidden_dropout=0.0,
        attention_dropout=0.0,
    )


if __name__ == "__main__":
    answer(build)
