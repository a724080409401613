"""Small configurations of every model type, with what its files state; what they leave out, transformers fills in."""

from tests.profiles.transformer.base_sizes import DELTA, LLAMA, MANY, MLA, WIDE
from tests.profiles.transformer.newer_configs import NEWER_CONFIGS

_GPT2 = {"n_embd": 48, "n_layer": 3, "n_head": 4, "vocab_size": 101, "n_positions": 37}
_MAMBA = {
    "hidden_size": 64, "num_hidden_layers": 3, "vocab_size": 203, "state_size": 6, "conv_kernel": 3, "expand": 2,
    "time_step_rank": 5,
}  # fmt: skip
_MAMBA2 = {
    "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_n_groups": 2, "mamba_d_state": 12, "mamba_d_conv": 4,
    "mamba_expand": 2, "mamba_chunk_size": 16,
}  # fmt: skip
_NEMOTRON = {
    "hidden_size": 64, "intermediate_size": 112, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 24,
    "vocab_size": 203, "mamba_num_heads": 6, "mamba_head_dim": 16, "ssm_state_size": 12, "n_groups": 2,
    "conv_kernel": 4, "chunk_size": 16, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 40,
    "moe_shared_expert_intermediate_size": 48,
}  # fmt: skip
SMALL_CONFIGS: dict[str, dict[str, object]] = {
    "arcee": {"model_type": "arcee", **LLAMA},
    "aria_text": {
        "model_type": "aria_text", **LLAMA, "moe_num_experts": 4, "moe_topk": 2, "moe_num_shared_experts": 2
    },
    "bloom": {"model_type": "bloom", "hidden_size": 48, "n_layer": 3, "n_head": 4, "vocab_size": 101},
    "codegen": {"model_type": "codegen", **_GPT2, "rotary_dim": 4},
    "cohere": {"model_type": "cohere", **LLAMA},
    "cohere, norms of queries, untied": {
        "model_type": "cohere", **LLAMA, "use_qk_norm": True, "attention_bias": True, "tie_word_embeddings": False
    },
    "cohere2": {"model_type": "cohere2", **LLAMA, "sliding_window": 16},
    "cwm": {"model_type": "cwm", **WIDE},
    "dbrx": {
        "model_type": "dbrx", "d_model": 64, "n_heads": 8, "n_layers": 2, "max_seq_len": 64, "vocab_size": 99,
        "attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0},
        "ffn_config": {"ffn_hidden_size": 40, "moe_num_experts": 4, "moe_top_k": 2, "hidden_size": 64},
    },
    "deepseek_v2": {
        "model_type": "deepseek_v2", **MLA, **MANY, "n_shared_experts": 2, "first_k_dense_replace": 1
    },
    "deepseek_v2, queries at once": {
        "model_type": "deepseek_v2", **MLA, **MANY, "q_lora_rank": None, "n_shared_experts": 1
    },
    "deepseek_v3": {
        "model_type": "deepseek_v3", **MLA, **MANY, "n_shared_experts": 1, "first_k_dense_replace": 3, "n_group": 2,
        "topk_group": 1,
    },
    "deepseek_v3, biases": {
        "model_type": "deepseek_v3", **MLA, **MANY, "n_shared_experts": 3, "first_k_dense_replace": 2, "n_group": 2,
        "topk_group": 1, "attention_bias": True, "tie_word_embeddings": True, "num_nextn_predict_layers": 1,
    },
    "dots1": {
        "model_type": "dots1", **WIDE, **MANY, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1,
        "topk_group": 1,
    },
    "ernie4_5": {"model_type": "ernie4_5", **WIDE},
    "ernie4_5, biases": {"model_type": "ernie4_5", **WIDE, "use_bias": True, "tie_word_embeddings": False},
    "ernie4_5_moe": {
        "model_type": "ernie4_5_moe", **LLAMA, "moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 40,
        "moe_num_shared_experts": 2, "moe_layer_start_index": 1, "moe_layer_interval": 2, "moe_layer_end_index": 3,
    },
    "exaone4": {"model_type": "exaone4", **LLAMA, "sliding_window": 16, "sliding_window_pattern": 4},
    "exaone_moe": {
        "model_type": "exaone_moe", **WIDE, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 40,
        "num_shared_experts": 1, "first_k_dense_replace": 1,
    },
    "falcon": {
        "model_type": "falcon", "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 8, "vocab_size": 99
    },
    "falcon, new": {
        "model_type": "falcon", "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 8, "vocab_size": 99,
        "new_decoder_architecture": True, "num_kv_heads": 2,
    },
    "falcon, new, one norm": {
        "model_type": "falcon", "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 8, "vocab_size": 99,
        "new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1, "ffn_hidden_size": 200,
    },
    "falcon, sequential": {
        "model_type": "falcon", "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 8, "vocab_size": 99,
        "multi_query": False, "parallel_attn": False, "bias": True, "alibi": True,
    },
    "flex_olmo": {"model_type": "flex_olmo", **LLAMA, "num_experts": 4, "num_experts_per_tok": 2},
    "gemma": {"model_type": "gemma", **WIDE},
    "gemma2": {"model_type": "gemma2", **WIDE, "sliding_window": 16},
    "gemma3_text": {"model_type": "gemma3_text", **WIDE, "sliding_window": 16},
    "glm": {"model_type": "glm", **WIDE},
    "glm4": {"model_type": "glm4", **WIDE, "attention_bias": False},
    "glm4_moe": {
        "model_type": "glm4_moe", **WIDE, **MANY, "n_shared_experts": 1, "first_k_dense_replace": 0, "n_group": 1,
        "topk_group": 1,
    },
    "glm4_moe, norms of queries": {
        "model_type": "glm4_moe", **WIDE, **MANY, "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1,
        "topk_group": 1, "use_qk_norm": True, "attention_bias": True,
    },
    "glm4_moe_lite": {"model_type": "glm4_moe_lite", **MLA, **MANY, "n_shared_experts": 1, "mlp_layer_types": [
        "dense", "sparse", "dense", "sparse"
    ]},
    "gpt2": {"model_type": "gpt2", **_GPT2},
    "gpt2, untied": {"model_type": "gpt2", **_GPT2, "n_inner": 100, "tie_word_embeddings": False},
    "gpt_bigcode": {"model_type": "gpt_bigcode", **_GPT2},
    "gpt_bigcode, all heads": {"model_type": "gpt_bigcode", **_GPT2, "multi_query": False},
    "gpt_neo": {
        "model_type": "gpt_neo", "hidden_size": 48, "num_layers": 4, "num_heads": 4, "vocab_size": 101,
        "max_position_embeddings": 37, "attention_types": [[["global", "local"], 2]],
    },
    "gpt_neox": {
        "model_type": "gpt_neox", "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
        "intermediate_size": 100, "vocab_size": 101,
    },
    "gpt_oss": {
        "model_type": "gpt_oss", **WIDE, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 16
    },
    "gptj": {"model_type": "gptj", **_GPT2, "rotary_dim": 4},
    "granite": {"model_type": "granite", **LLAMA, "attention_bias": True, "mlp_bias": True},
    "granitemoe": {"model_type": "granitemoe", **LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2},
    "granitemoeshared": {
        "model_type": "granitemoeshared", **LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2,
        "shared_intermediate_size": 72,
    },
    "helium": {"model_type": "helium", **LLAMA, "head_dim": 8},
    "hunyuan_v1_dense": {"model_type": "hunyuan_v1_dense", **WIDE},
    "hunyuan_v1_moe": {"model_type": "hunyuan_v1_moe", **WIDE, "num_experts": 4, "moe_topk": [2, 2, 2, 2]},
    "hy_v3": {
        "model_type": "hy_v3", **WIDE, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 40,
        "num_shared_experts": 1, "first_k_dense_replace": 1,
    },
    "internlm3": {"model_type": "internlm3", **WIDE, "qkv_bias": True, "bias": True},
    "internlm3, no biases": {"model_type": "internlm3", **WIDE, "qkv_bias": False, "bias": False},
    "iquestcoder": {"model_type": "iquestcoder", **WIDE},
    "llama": {"model_type": "llama", **LLAMA},
    "llama, all heads, biases, tied": {
        "model_type": "llama", **WIDE, "num_key_value_heads": None, "attention_bias": True, "mlp_bias": True,
        "tie_word_embeddings": True,
    },
    "llama4_text": {
        "model_type": "llama4_text", **WIDE, "intermediate_size_mlp": 200, "num_local_experts": 4,
        "num_experts_per_tok": 1, "interleave_moe_layer_step": 2,
    },
    "mellum": {
        "model_type": "mellum", **WIDE, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 40
    },
    "minicpm3": {"model_type": "minicpm3", **MLA},
    "minimax_m2": {"model_type": "minimax_m2", **WIDE, "num_local_experts": 4, "num_experts_per_tok": 2},
    "ministral": {"model_type": "ministral", **WIDE},
    "ministral3": {"model_type": "ministral3", **WIDE},
    "mistral": {"model_type": "mistral", **LLAMA, "sliding_window": 16},
    "mixtral": {"model_type": "mixtral", **LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2},
    "mpt": {"model_type": "mpt", "d_model": 64, "n_heads": 4, "n_layers": 3, "vocab_size": 101, "expansion_ratio": 4},
    "nemotron": {"model_type": "nemotron", **LLAMA, "head_dim": 8},
    "olmo": {"model_type": "olmo", **LLAMA},
    "olmo2": {"model_type": "olmo2", **LLAMA},
    "olmo3": {"model_type": "olmo3", **LLAMA, "sliding_window": 16},
    "olmoe": {
        "model_type": "olmoe", **LLAMA, "num_key_value_heads": 8, "num_experts": 4, "num_experts_per_tok": 2
    },
    "opt": {
        "model_type": "opt", "hidden_size": 48, "ffn_dim": 100, "num_hidden_layers": 3, "num_attention_heads": 4,
        "vocab_size": 101, "max_position_embeddings": 37, "word_embed_proj_dim": 48,
    },
    "persimmon": {"model_type": "persimmon", **LLAMA, "num_key_value_heads": 8},
    "phi": {"model_type": "phi", **LLAMA},
    "phi, norms of queries": {"model_type": "phi", **LLAMA, "num_key_value_heads": 8, "qk_layernorm": True},
    "phi3": {"model_type": "phi3", **LLAMA, "sliding_window": 16},
    "phimoe": {
        "model_type": "phimoe", **LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2, "attention_bias": True,
        "lm_head_bias": True,
    },
    "qwen2": {"model_type": "qwen2", **LLAMA},
    "qwen2, tied": {"model_type": "qwen2", **LLAMA, "tie_word_embeddings": True},
    "qwen2_moe": {
        "model_type": "qwen2_moe", **LLAMA, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 40,
        "shared_expert_intermediate_size": 56,
    },
    "qwen2_moe, dense layers": {
        "model_type": "qwen2_moe", **LLAMA, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 40,
        "shared_expert_intermediate_size": 56, "decoder_sparse_step": 2, "mlp_only_layers": [3], "qkv_bias": False,
    },
    "qwen3": {"model_type": "qwen3", **WIDE},
    "qwen3_moe": {
        "model_type": "qwen3_moe", **WIDE, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 40
    },
    "qwen3_moe, dense layers": {
        "model_type": "qwen3_moe", **WIDE, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 40,
        "mlp_only_layers": [0, 2],
    },
    "seed_oss": {"model_type": "seed_oss", **WIDE, "attention_bias": True, "attention_out_bias": False},
    "smollm3": {"model_type": "smollm3", **LLAMA},
    "solar_open": {
        "model_type": "solar_open", **WIDE, **MANY, "n_shared_experts": 1, "n_group": 1, "topk_group": 1
    },
    "stablelm": {"model_type": "stablelm", **LLAMA},
    "stablelm, parallel": {
        "model_type": "stablelm", **LLAMA, "use_qkv_bias": True, "qk_layernorm": True, "use_parallel_residual": True
    },
    "starcoder2": {"model_type": "starcoder2", **LLAMA},
    "starcoder2, no biases": {"model_type": "starcoder2", **LLAMA, "use_bias": False},
    "youtu": {"model_type": "youtu", **MLA},
    "bamba": {"model_type": "bamba", **LLAMA, **_MAMBA2, "attn_layer_indices": [1, 3]},
    "falcon_h1": {"model_type": "falcon_h1", **LLAMA, **_MAMBA2, "mamba_d_ssm": 96, "mamba_d_head": 12},
    "falcon_h1, with norms and biases": {
        "model_type": "falcon_h1", **LLAMA, **_MAMBA2, "mamba_d_ssm": 96, "mamba_d_head": 12, "mamba_rms_norm": True,
        "projectors_bias": True, "mamba_conv_bias": False,
    },
    "falcon_mamba": {"model_type": "falcon_mamba", **_MAMBA},
    "granitemoehybrid": {
        "model_type": "granitemoehybrid", **LLAMA, **_MAMBA2, "num_local_experts": 4, "num_experts_per_tok": 2,
        "shared_intermediate_size": 48, "layer_types": ["mamba", "attention", "mamba", "mamba"],
    },
    "granitemoehybrid, without experts": {
        "model_type": "granitemoehybrid", **LLAMA, **_MAMBA2, "num_local_experts": 0, "shared_intermediate_size": 48,
        "layer_types": ["mamba", "attention", "mamba", "mamba"],
    },
    "jamba": {
        "model_type": "jamba", **LLAMA, "mamba_d_state": 6, "mamba_d_conv": 3, "mamba_expand": 2, "mamba_dt_rank": 5,
        "num_experts": 4, "num_experts_per_tok": 2, "attn_layer_period": 4, "attn_layer_offset": 2,
        "expert_layer_period": 2, "expert_layer_offset": 1,
    },
    "jamba, with biases": {
        "model_type": "jamba", **LLAMA, "mamba_d_state": 6, "mamba_d_conv": 3, "mamba_expand": 2,
        "mamba_dt_rank": "auto", "mamba_conv_bias": False, "mamba_proj_bias": True, "num_experts": 1,
        "attn_layer_period": 2,
        "attn_layer_offset": 0, "expert_layer_period": 2, "expert_layer_offset": 1,
    },
    "kimi_linear": {
        "model_type": "kimi_linear", **MLA, "q_lora_rank": None, **MANY, "num_local_experts": 6,
        "n_shared_experts": 1, "linear_head_dim": 12, "linear_num_heads": 4, "linear_conv_kernel_dim": 4,
        "layer_types": ["linear_attention", "linear_attention", "full_attention", "linear_attention"],
        "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
    },
    "lfm2": {
        "model_type": "lfm2", **LLAMA, "conv_L_cache": 3, "full_attn_idxs": [1], "block_multiple_of": 32,
        "block_ffn_dim_multiplier": 1.5, "block_auto_adjust_ff_dim": True,
    },
    "lfm2, biases, its width as it is": {
        "model_type": "lfm2", **LLAMA, "conv_L_cache": 3, "conv_bias": True, "block_auto_adjust_ff_dim": False,
        "layer_types": ["conv", "full_attention", "conv", "conv"],
    },
    "lfm2_moe": {
        "model_type": "lfm2_moe", **LLAMA, "conv_L_cache": 3, "num_dense_layers": 1, "num_experts": 4,
        "num_experts_per_tok": 2, "moe_intermediate_size": 40,
        "layer_types": ["conv", "full_attention", "conv", "conv"],
    },
    "mamba": {"model_type": "mamba", **_MAMBA, "use_bias": True},
    "mamba2": {
        "model_type": "mamba2", "hidden_size": 64, "num_hidden_layers": 4, "vocab_size": 203, "num_heads": 8,
        "head_dim": 16, "state_size": 12, "n_groups": 2, "conv_kernel": 4, "expand": 2, "chunk_size": 16,
    },
    "minimax": {
        "model_type": "minimax", **WIDE, "num_local_experts": 4, "num_experts_per_tok": 2, "block_size": 16,
        "layer_types": ["linear_attention", "full_attention", "linear_attention", "linear_attention"],
    },
    "nemotron_h": {"model_type": "nemotron_h", **_NEMOTRON, "hybrid_override_pattern": "M-M*-E"},
    "nemotron_h, experts behind a narrow product": {
        "model_type": "nemotron_h", **_NEMOTRON, "layers_block_type": ["mamba", "moe", "attention", "moe"],
        "moe_latent_size": 20, "mlp_bias": True,
    },
    "olmo_hybrid": {
        "model_type": "olmo_hybrid", **LLAMA, **DELTA,
        "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"],
    },
    "qwen3_5_text": {"model_type": "qwen3_5_text", **WIDE, **DELTA, "full_attention_interval": 2},
    "qwen3_5_moe_text": {
        "model_type": "qwen3_5_moe_text", **WIDE, **DELTA, "num_experts": 4, "num_experts_per_tok": 2,
        "moe_intermediate_size": 40, "shared_expert_intermediate_size": 56,
    },
    "qwen3_next": {
        "model_type": "qwen3_next", **WIDE, **DELTA, "num_experts": 4, "num_experts_per_tok": 2,
        "moe_intermediate_size": 40, "shared_expert_intermediate_size": 56, "decoder_sparse_step": 2,
    },
    **NEWER_CONFIGS,
}  # fmt: skip
"""By what is special about them."""
