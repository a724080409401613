"""Small configurations of model types whose layers have more than attention and an MLP, or sizes of their own."""

from tests.profiles.transformer.base_sizes import DELTA, LLAMA, MANY, MLA, WIDE

_GROUPS = {"n_group": 1, "topk_group": 1}
_INDEXED = {"index_head_dim": 12, "index_n_heads": 4, "index_topk": 5}
_MODERN = {**LLAMA, "num_key_value_heads": 8, "pad_token_id": 0}
_QWEN4 = {
    **WIDE, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 40,
    "shared_expert_intermediate_size": 56, **DELTA, "hc_count": 3, "hc_lowrank": 10, "indexer_n_heads": 4,
    "indexer_kv_heads": 1, "indexer_head_dim": 24, "indexer_budget": 6, "indexer_compress_ratio": 2,
    "layer_types": ["linear_attention", "linear_attention", "full_attention", "indexed_attention"],
}  # fmt: skip
_ROTARY = {"rope_type": "default", "rope_theta": 10000.0}
_SECTIONS = {"rope_parameters": {**_ROTARY, "mrope_section": [1, 1, 2]}}
_FULL_LAST = ["sliding_attention"] * 3 + ["full_attention"]

NEWER_CONFIGS: dict[str, dict[str, object]] = {
    "afmoe": {
        "model_type": "afmoe", **WIDE, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 40,
        "num_shared_experts": 2, "num_dense_layers": 1, "sliding_window": 16,
    },
    "apertus": {"model_type": "apertus", **LLAMA, "attention_bias": True},
    "apertus1p5_text": {"model_type": "apertus1p5_text", **LLAMA},
    "axk1": {
        "model_type": "axk1", **MLA, **MANY, **_GROUPS, "n_shared_experts": 1,
        "mlp_layer_types": ["dense", "sparse", "sparse", "dense"],
    },
    "axk2": {
        "model_type": "axk2", **MLA, **MANY, **_INDEXED, "n_shared_experts": 1, "gated_norm_rank": 9,
        "mlp_layer_types": ["dense", "sparse", "sparse", "dense"],
    },
    "bailing_hybrid": {
        "model_type": "bailing_hybrid", **MLA, "q_lora_rank": None, "num_experts": 4, "num_experts_per_token": 2,
        "moe_intermediate_size": 40, "num_shared_experts": 1, "first_k_dense_replace": 1, "num_expert_group": 2,
        "topk_group": 1, "linear_head_dim": 12, "linear_num_heads": 4, "linear_conv_kernel_dim": 4,
        "num_nextn_predict_layers": 0,
        "layer_types": ["linear_attention", "linear_attention", "full_attention", "linear_attention"],
        "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
    },
    "beam": {
        "model_type": "beam", **WIDE, **_GROUPS, "num_experts": 4, "num_experts_per_tok": 2,
        "moe_intermediate_size": 40, "sliding_window": 16, "layer_types": _FULL_LAST,
        "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
    },
    "biogpt": {
        "model_type": "biogpt", "hidden_size": 48, "intermediate_size": 100, "num_hidden_layers": 3,
        "num_attention_heads": 4, "vocab_size": 101, "max_position_embeddings": 37,
    },
    "bitnet": {"model_type": "bitnet", **LLAMA},
    "dory": {
        "model_type": "dory", **WIDE, "num_hidden_layers": 7, "sliding_window": 8, "n_input_layers": 2,
        "n_output_layers": 1, "attention_bias": True, "mlp_bias": True,
    },
    "hrm_text": {
        "model_type": "hrm_text", **WIDE, "num_hidden_layers": 3, "attention_bias": True, "H_cycles": 3,
    },
    "idefics": {
        "model_type": "idefics", **LLAMA, "num_key_value_heads": 8, "num_hidden_layers": 5, "cross_layer_interval": 2,
        "additional_vocab_size": 3, "alpha_type": "vector", "qk_layer_norms": True, "pad_token_id": 0,
        "freeze_text_layers": False, "freeze_vision_layers": False,
        "vision_config": {"embed_dim": 40, "num_attention_heads": 4},
    },
    "mllama": {
        "model_type": "mllama", "text_config": {
            "model_type": "mllama_text_model", **LLAMA, "cross_attention_layers": [1, 3], "pad_token_id": 0,
        },
        "vision_config": {"hidden_size": 48, "attention_heads": 4, "num_hidden_layers": 2, "num_global_layers": 1},
    },
    "blt": {
        "model_type": "blt", "vocab_size": 101, "encoder_hash_byte_group_vocab": 70, "local_attention_window_len": 512,
        "encoder_config": {
            "hidden_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2,
            "intermediate_size": 80, "vocab_size": 101,
        },
        "global_config": {
            "hidden_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 3,
            "intermediate_size": 160,
        },
        "decoder_config": {
            "hidden_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2,
            "intermediate_size": 112, "hidden_size_global": 96,
        },
        "patcher_config": {
            "hidden_size": 40, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2,
            "intermediate_size": 72,
        },
    },
    "reformer": {
        "model_type": "reformer", "hidden_size": 64, "num_attention_heads": 4, "attention_head_size": 12,
        "feed_forward_size": 100, "vocab_size": 101, "is_decoder": True, "attn_layers": ["lsh", "local", "lsh"],
        "axial_pos_shape": [4, 8], "axial_pos_embds_dim": [24, 40],
    },
    "xlnet": {
        "model_type": "xlnet", "d_model": 64, "n_layer": 3, "n_head": 8, "d_inner": 100, "vocab_size": 101,
    },
    "zamba": {
        "model_type": "zamba", **LLAMA, "num_hidden_layers": 9, "n_mamba_heads": 2, "attn_layer_period": 3,
        "attn_layer_offset": 1, "mamba_d_state": 6, "mamba_dt_rank": 5, "mamba_proj_bias": True,
    },
    "zamba2": {
        "model_type": "zamba2", **LLAMA, "n_mamba_heads": 4, "mamba_d_state": 6, "mamba_ngroups": 2,
        "num_hidden_layers": 7, "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid", "hybrid", "mamba", "mamba"],
        "num_mem_blocks": 2, "use_shared_attention_adapter": True, "adapter_rank": 5, "add_bias_linear": True,
        "use_mem_rope": True,
    },
    "cohere2_moe": {
        "model_type": "cohere2_moe", **WIDE, "num_experts": 4, "num_experts_per_tok": 2, "sliding_window": 16,
        "layer_types": _FULL_LAST,
    },
    "cohere2_moe, a shared expert, dense layers": {
        "model_type": "cohere2_moe", **WIDE, "num_experts": 4, "num_experts_per_tok": 2, "sliding_window": 16,
        "num_shared_experts": 2, "prefix_dense_intermediate_size": 100, "layer_types": _FULL_LAST,
        "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
    },
    "chameleon": {"model_type": "chameleon", **LLAMA, "vocabulary_map": {"<image>": 1}},
    "cohere_compass": {
        "model_type": "cohere_compass", "tie_word_embeddings": False, "text_config": {
            "model_type": "cohere_compass_text", **LLAMA, "rope_parameters": {"full_attention": _ROTARY},
        },
    },
    "cohere_compass_text": {
        "model_type": "cohere_compass_text", **LLAMA, "sliding_window": 16, "layer_types": _FULL_LAST,
        "rope_parameters": {"full_attention": _ROTARY, "sliding_attention": _ROTARY},
    },
    "cpmant": {
        "model_type": "cpmant", "hidden_size": 64, "num_attention_heads": 4, "dim_head": 24, "dim_ff": 100,
        "num_hidden_layers": 3, "vocab_size": 101, "prompt_types": 3, "prompt_length": 5, "segment_types": 4,
        "position_bias_num_buckets": 7,
    },
    "ctrl": {"model_type": "ctrl", "n_embd": 48, "n_head": 4, "n_layer": 3, "dff": 100, "vocab_size": 101},
    "deepseek_ocr2": {
        "model_type": "deepseek_ocr2", "text_config": {
            "model_type": "deepseek_ocr2_text", **LLAMA, **MANY, **_GROUPS, "n_shared_experts": 1,
            "mlp_layer_types": ["dense", "sparse", "dense", "sparse"],
        },
    },
    "deepseek_v32": {
        "model_type": "deepseek_v32", **MLA, **MANY, **_INDEXED, **_GROUPS, "n_shared_experts": 1,
        "first_k_dense_replace": 1, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
    },
    "deepseek_v4": {
        "model_type": "deepseek_v4", **WIDE, **MANY, **_INDEXED, "intermediate_size": 40, "num_key_value_heads": 1,
        "n_shared_experts": 1, "q_lora_rank": 28, "o_lora_rank": 10, "o_groups": 4, "qk_rope_head_dim": 6,
        "sliding_window": 8, "hc_mult": 3, "num_nextn_predict_layers": 0,
        "layer_types": [
            "sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention", "sliding_attention"
        ],
        "mlp_layer_types": ["hash_moe", "moe", "moe", "moe"],
        "compress_rates": {"compressed_sparse_attention": 2, "heavily_compressed_attention": 8},
    },
    "diffllama": {"model_type": "diffllama", **LLAMA, "head_dim": 8},
    "doge": {"model_type": "doge", **LLAMA},
    "dots3_note_text": {
        "model_type": "dots3_note_text", **MLA, **MANY, **_INDEXED, **_GROUPS, "n_shared_experts": 2,
        "shared_experts_intermediate_size": 44, "sliding_window": 16,
        "layer_types": ["indexed_attention", "indexed_attention", "sliding_attention", "indexed_attention"],
        "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
        "per_layer_config": {
            "2": {"kv_lora_rank": 26, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16}
        },
    },
    "ernie4_5_vl_moe": {
        "model_type": "ernie4_5_vl_moe", "text_config": {
            "model_type": "ernie4_5_vl_moe_text", **LLAMA, "moe_num_experts": 4, "moe_k": 2,
            "moe_num_shared_experts": 2, "moe_intermediate_size": [40, 24], **_SECTIONS,
        },
    },
    "ernie4_5_vl_moe, biases": {
        "model_type": "ernie4_5_vl_moe", "text_config": {
            "model_type": "ernie4_5_vl_moe_text", **LLAMA, "moe_num_experts": 4, "moe_k": 2, "use_bias": True,
            "moe_num_shared_experts": 0, "moe_intermediate_size": [40, 40], **_SECTIONS,
            "mlp_layer_types": ["dense", "sparse", "dense", "sparse"],
        },
    },
    "flint": {
        "model_type": "flint", **WIDE, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 40,
        "shared_expert_intermediate_size": 56, "mlp_only_layers": [0], "sliding_window": 16,
        "layer_types": _FULL_LAST,
    },
    "gemma3n_text": {
        "model_type": "gemma3n_text", **WIDE, "intermediate_size": [112, 112, 112, 96], "sliding_window": 16,
        "layer_types": _FULL_LAST, "activation_sparsity_pattern": [0.0] * 4, "altup_num_inputs": 3, "laurel_rank": 10,
        "hidden_size_per_layer_input": 14, "vocab_size_per_layer_input": 190, "num_kv_shared_layers": 0,
    },
    "gemma4_text": {
        "model_type": "gemma4_text", **WIDE, "sliding_window": 16, "hidden_size_per_layer_input": 14,
        "vocab_size_per_layer_input": 190, "layer_types": _FULL_LAST, "global_head_dim": 32,
        "num_global_key_value_heads": 1, "attention_k_eq_v": True,
    },
    "gemma4_text, experts": {
        "model_type": "gemma4_text", **WIDE, "sliding_window": 16, "hidden_size_per_layer_input": 0,
        "layer_types": _FULL_LAST, "enable_moe_block": True, "num_experts": 4, "top_k_experts": 2,
        "moe_intermediate_size": 40,
    },
    "gemma4_text, shared keys": {
        "model_type": "gemma4_text", **WIDE, "num_hidden_layers": 6, "sliding_window": 16,
        "hidden_size_per_layer_input": 0, "layer_types": ["sliding_attention", "full_attention"] * 3,
        "num_kv_shared_layers": 2, "use_double_wide_mlp": True,
    },
    "gemma4_unified_text": {
        "model_type": "gemma4_unified_text", **WIDE, "sliding_window": 16, "layer_types": _FULL_LAST,
    },
    "glm_moe_dsa": {
        "model_type": "glm_moe_dsa", **MLA, **MANY, **_INDEXED, **_GROUPS, "n_shared_experts": 1,
        "first_k_dense_replace": 1, "indexer_types": ["full", "shared", "full", "shared"],
    },
    "glm5_next": {
        "model_type": "glm5_next", "text_config": {
            "model_type": "glm5_next_text", **MLA, **MANY, **_INDEXED, **_GROUPS, "qk_rope_head_dim": 0,
            "index_topk": 6, "index_kpool": 3, "n_shared_experts": 1, "hc_mult": 3, "linear_num_heads": 4,
            "linear_head_dim": 12, "linear_conv_kernel_dim": 4,
            "layer_types": ["linear_attention", "full_attention", "indexed_attention", "linear_attention"],
            "mlp_layer_types": ["dense", "sparse", "sparse", "dense"],
            "indexer_types": ["full", "full", "shared", "shared"],
        },
    },
    "glm_ocr": {"model_type": "glm_ocr", "text_config": {"model_type": "glm_ocr_text", **LLAMA}},
    "gpt-sw3": {
        "model_type": "gpt-sw3", "n_embd": 48, "n_layer": 3, "n_head": 4, "vocab_size": 101, "n_positions": 37
    },
    "gpt_neox_japanese": {
        "model_type": "gpt_neox_japanese", "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
        "vocab_size": 101,
    },
    "granite4_vision": {
        "model_type": "granite4_vision", "downsample_rate": "1/4", "deepstack_layer_map": [],
        "text_config": {"model_type": "granite4_vision_text", **LLAMA, "attention_bias": True, "mlp_bias": True},
    },
    "granite_swa": {"model_type": "granite_swa", **LLAMA, "sliding_window": 16},
    "granitemoe_swa": {
        "model_type": "granitemoe_swa", **LLAMA, "num_local_experts": 4, "num_experts_per_tok": 2,
        "sliding_window": 16, "shared_intermediate_size": 72,
    },
    "hunyuan_vl": {"model_type": "hunyuan_vl", "text_config": {"model_type": "hunyuan_vl_text", **WIDE}},
    "hy_v4": {
        "model_type": "hy_v4", **MLA, **MANY, **_INDEXED, **_GROUPS, "n_shared_experts": 1, "hc_mult": 3,
        "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
        "indexer_types": ["full", "full", "shared", "shared"],
    },
    "hy_v4_vl": {
        "model_type": "hy_v4_vl", "text_config": {
            "model_type": "hy_v4_vl_text", **MLA, **MANY, **_INDEXED, **_GROUPS, "n_shared_experts": 1, "hc_mult": 3,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 1]},
        },
    },
    "hyperclovax": {"model_type": "hyperclovax", **LLAMA, "head_dim": 8},
    "hyperclovax, two norms": {"model_type": "hyperclovax", **LLAMA, "head_dim": 8, "use_post_norm": False},
    "inkling2_text": {
        "model_type": "inkling2_text", **WIDE, **MANY, "intermediate_size": 40, "num_hidden_layers": 7,
        "swa_num_attention_heads": 4,
        "swa_num_key_value_heads": 4, "swa_head_dim": 16, "sliding_window_size": 8, "d_rel": 5, "rel_extent": 24,
        "conv_kernel_size": 3, "n_layers_per_attn_res_block": 3, "unpadded_vocab_size": 199,
        "layer_types": ["hybrid_sliding", "hybrid_sliding", "hybrid"] * 2 + ["hybrid_sliding"],
    },
    "inkling2_loop_text": {
        "model_type": "inkling2_loop_text", **WIDE, **MANY, "intermediate_size": 40, "num_hidden_layers": 7,
        "swa_num_attention_heads": 4, "swa_num_key_value_heads": 4, "swa_head_dim": 16, "sliding_window_size": 8,
        "d_rel": 5, "rel_extent": 24, "conv_kernel_size": 3, "n_layers_per_attn_res_block": 2,
        "unpadded_vocab_size": 199, "loop_layer_index_start": 2, "loop_layer_index_end": 6, "loop_num_passes": 3,
        "loop_gate_rank": 9, "layer_types": ["hybrid_sliding", "hybrid_sliding", "hybrid"] * 2 + ["hybrid_sliding"],
    },
    "inkling_text": {
        "model_type": "inkling_text", **WIDE, **MANY, "n_shared_experts": 2, "swa_num_attention_heads": 4,
        "swa_num_key_value_heads": 4, "swa_head_dim": 16, "sliding_window_size": 8, "d_rel": 5, "rel_extent": 24,
        "conv_kernel_size": 3, "layer_types": ["hybrid_sliding", "hybrid", "hybrid_sliding", "hybrid"],
        "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
    },
    "inkling_mm_model": {
        "model_type": "inkling_mm_model", "text_config": {
            "model_type": "inkling_text", **WIDE, "n_routed_experts": 6, "num_experts_per_tok": 2,
            "num_hidden_layers": 7, "dense_intermediate_size": 100,
            "n_shared_experts": 1, "swa_num_attention_heads": 4, "swa_num_key_value_heads": 2, "swa_head_dim": 24,
            "dense_mlp_idx": 2, "local_layer_ids": [0, 1, 3, 4, 5],
        },
    },
    "jetmoe": {
        "model_type": "jetmoe", "hidden_size": 64, "intermediate_size": 112, "num_hidden_layers": 3,
        "num_key_value_heads": 4, "kv_channels": 24, "vocab_size": 203, "num_local_experts": 6,
        "num_experts_per_tok": 2,
    },
    "kosmos-2": {
        "model_type": "kosmos-2", "text_config": {
            "model_type": "kosmos_2_text_model", "embed_dim": 48, "layers": 3, "attention_heads": 4, "ffn_dim": 100,
            "vocab_size": 101,
        },
    },
    "kosmos-2.5": {
        "model_type": "kosmos-2.5", "text_config": {
            "model_type": "kosmos_2_5_text_model", "embed_dim": 48, "layers": 3, "attention_heads": 4, "ffn_dim": 100,
            "vocab_size": 101,
        },
    },
    "kolibri1": {
        "model_type": "kolibri1", **WIDE, "num_local_experts": 4, "num_experts_per_tok": 2,
        "moe_intermediate_size": 40, "shared_expert_intermediate_size": 56, "layer_types": _FULL_LAST,
        "sliding_window": 16,
    },
    "laguna": {
        "model_type": "laguna", **WIDE, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 40,
        "shared_expert_intermediate_size": 56, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
        "num_attention_heads_per_layer": [8, 8, 4, 8],
    },
    "lara_mini": {
        "model_type": "lara_mini", **WIDE, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 40,
        "shared_expert_intermediate_size": 56, **DELTA, "sliding_window": 16,
        "layer_types": ["linear_attention", "sliding_attention", "linear_attention", "full_attention"],
    },
    "lfm3": {
        "model_type": "lfm3", **WIDE, "conv_L_cache": 5, "sliding_window": 16,
        "layer_types": ["conv", "full_attention", "conv", "sliding_attention"],
    },
    "lfm3, two norms, no gate": {
        "model_type": "lfm3", **WIDE, "conv_L_cache": 5, "conv_bias": True, "use_attention_gate": False,
        "use_sandwich_norm": False, "sliding_window": 16,
        "layer_types": ["conv", "full_attention", "conv", "sliding_attention"],
    },
    "longcat_flash": {
        "model_type": "longcat_flash", "hidden_size": 64, "ffn_hidden_size": 112, "expert_ffn_hidden_size": 40,
        "num_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 203, "kv_lora_rank": 20,
        "q_lora_rank": 28, "qk_rope_head_dim": 6, "qk_nope_head_dim": 10, "v_head_dim": 14, "n_routed_experts": 4,
        "moe_topk": 2, "zero_expert_num": 0,
    },
    "mimo_v2_flash": {
        "model_type": "mimo_v2_flash", **WIDE, **MANY, **_GROUPS, "v_head_dim": 16, "sliding_window": 16,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
        "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
    },
    "minimax_m3_vl_text": {
        "model_type": "minimax_m3_vl_text", **WIDE, "num_local_experts": 4, "num_experts_per_tok": 2,
        "dense_intermediate_size": 100, "shared_intermediate_size": 72, "index_head_dim": 12, "index_n_heads": 2,
        "index_block_size": 4, "index_topk_blocks": 2, "rotary_dim": 8,
        "layer_types": ["full_attention", "minimax_m3_sparse", "minimax_m3_sparse", "full_attention"],
        "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
    },
    "minimax_m3_vl_text, as published": {
        "model_type": "minimax_m3_vl_text", **WIDE, "num_local_experts": 4, "num_experts_per_tok": 2,
        "dense_intermediate_size": 100, "shared_intermediate_size": 72, "rotary_dim": 8,
        "moe_layer_freq": [0, 1, 1, 1], "sparse_attention_config": {
            "sparse_index_dim": 12, "sparse_num_index_heads": 2, "sparse_block_size": 4, "sparse_topk_blocks": 2,
            "sparse_attention_freq": [0, 1, 1, 0],
        },
    },
    "mistral_large4": {
        "model_type": "mistral_large4", "text_config": {
            "model_type": "mistral_large4_text", **MLA, **MANY, **_INDEXED, **_GROUPS, "q_lora_rank": None,
            "n_shared_experts": 1,
        },
    },
    "mistral_large4, shared keys": {
        "model_type": "mistral_large4", "text_config": {
            "model_type": "mistral_large4_text", **MLA, **MANY, **_INDEXED, **_GROUPS, "q_lora_rank": None,
            "n_shared_experts": 1, "attention_bias": True, "num_hidden_layers": 6,
            "no_rope_layers": [1, 0, 1, 1, 0, 1], "kv_source_layers": [0, 1, 0, 3, 1, 3],
            "indexer_types": ["full", "shared", "full", "full", "shared", "shared"],
        },
    },
    "modernbert-decoder": {"model_type": "modernbert-decoder", **_MODERN},
    "modernbert-decoder, biases": {
        "model_type": "modernbert-decoder", **_MODERN, "attention_bias": True, "mlp_bias": True, "decoder_bias": False
    },
    "molmo2": {"model_type": "molmo2", "text_config": {"model_type": "molmo2_text", **WIDE}},
    "molmo2, norms of all heads": {
        "model_type": "molmo2", "text_config": {
            "model_type": "molmo2_text", **WIDE, "qk_norm_type": "olmo", "attention_bias": True,
            "additional_vocab_size": 5,
        },
    },
    "moshi": {
        "model_type": "moshi", "hidden_size": 64, "ffn_dim": 112, "num_hidden_layers": 3, "num_attention_heads": 8,
        "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 203, "sliding_window": 16,
    },
    "muse_glimmer": {
        "model_type": "muse_glimmer", "text_config": {
            "model_type": "muse_glimmer_text", **WIDE, "num_hidden_layers": 6, "sliding_window": 16,
        },
    },
    "muse_spark": {
        "model_type": "muse_spark", "audio_config": {"model_type": "muse_spark_audio", "out_hidden_size": 64},
        "text_config": {
            "model_type": "muse_spark_text", **WIDE, "num_local_experts": 4, "num_experts_per_tok": 2,
            "moe_intermediate_size": 40, "moe_hidden_size": 28, "sliding_window": 16,
            "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
        },
    },
    "nanochat": {"model_type": "nanochat", **LLAMA},
    "openai-gpt": {
        "model_type": "openai-gpt", "n_embd": 48, "n_layer": 3, "n_head": 4, "vocab_size": 101, "n_positions": 37
    },
    "qwen4_exp_text": {"model_type": "qwen4_exp_text", **_QWEN4},
    "qwen4_exp_text, n-grams": {
        "model_type": "qwen4_exp_text", **_QWEN4, "ple_layer_ids": [1, 2], "ple_embed_dim": 24, "ngram_size": 3,
        "heads_per_ngram": 4, "ngram_vocab_size_base": 100, "make_ngram_vocab_size_divisible_by": 16,
        "ple_conv_kernel_size": 3, "eos_token_id": 1,
    },
    "recurrent_gemma": {
        "model_type": "recurrent_gemma", **LLAMA, "lru_width": 80, "attention_window_size": 16, "conv1d_width": 3
    },
    "rwkv": {
        "model_type": "rwkv", "hidden_size": 64, "attention_hidden_size": 72, "intermediate_size": 100,
        "num_hidden_layers": 3, "vocab_size": 203,
    },
    "sarvam_mla": {
        "model_type": "sarvam_mla", **MLA, **MANY, **_GROUPS, "n_shared_experts": 2, "first_k_dense_replace": 1
    },
    "sarvam_moe": {
        "model_type": "sarvam_moe", **LLAMA, **MANY, **_GROUPS, "n_shared_experts": 1, "first_k_dense_replace": 1
    },
    "step3p7": {
        "model_type": "step3p7", "text_config": {
            "model_type": "step3p5", **WIDE, **MANY, "pad_token_id": 1, "share_expert_dim": 56,
            "num_sliding_attention_heads": 4, "sliding_window": 16, "layer_types": _FULL_LAST,
            "mlp_layer_types": ["dense", "sparse", "sparse", "dense"],
        },
    },
    "step3p7, names of its publisher": {
        "model_type": "step3p7", "text_config": {
            "hidden_size": 64, "intermediate_size": 112, "num_hidden_layers": 4,
            "num_attention_heads": 8, "num_attention_groups": 2, "head_dim": 24, "vocab_size": 203,
            "moe_num_experts": 6, "moe_top_k": 2, "moe_intermediate_size": 40, "share_expert_dims": 56,
            "moe_layers_enum": "1,3", "sliding_window": 16, "layer_types": _FULL_LAST,
            "attention_other_setting": {"attention_type": "sliding_attention", "num_attention_heads": 4},
        },
    },
    "unlimited_ocr": {
        "model_type": "unlimited_ocr", "text_config": {
            "model_type": "unlimited_ocr_text", **LLAMA, **MANY, "num_key_value_heads": 8, "n_shared_experts": 1,
            "sliding_window": 16,
        },
    },
    "xglm": {
        "model_type": "xglm", "d_model": 48, "ffn_dim": 100, "num_layers": 3, "attention_heads": 4, "vocab_size": 101
    },
    "xlstm": {
        "model_type": "xlstm", "hidden_size": 128, "embedding_dim": 128, "num_blocks": 3, "num_hidden_layers": 3,
        "num_heads": 4, "vocab_size": 203,
    },
    "zaya": {
        "model_type": "zaya", **WIDE, "num_experts": 4, "num_experts_per_tok": 1, "moe_intermediate_size": 40,
        "router_hidden_size": 20, "cca_time0": 3, "cca_time1": 2, "sliding_window": 16, "lm_head_bias": True,
        "layer_types": ["hybrid_sliding", "hybrid", "hybrid", "hybrid_sliding"],
    },
}  # fmt: skip
"""By what is special about them."""
