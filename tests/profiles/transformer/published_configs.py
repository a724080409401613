"""Shapes of well-known models as their files state them, and the parameters that are published for them."""

_LLAMA3 = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": False,
}  # fmt: skip
_DEEPSEEK_V3 = {
    "model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048,
    "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128, "vocab_size": 129280,
    "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3,
    "moe_layer_freq": 1, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128,
    "v_head_dim": 128, "num_nextn_predict_layers": 1, "tie_word_embeddings": False,
}  # fmt: skip
_KIMI_K3 = {
    "model_type": "kimi_linear", "hidden_size": 7168, "intermediate_size": 33792, "moe_intermediate_size": 3072,
    "num_hidden_layers": 93, "num_attention_heads": 96, "num_key_value_heads": 96, "vocab_size": 163840,
    "num_experts": 896, "num_experts_per_token": 16, "num_shared_experts": 2, "first_k_dense_replace": 1,
    "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
    "mla_use_output_gate": True, "routed_expert_hidden_size": 3584, "latent_moe_use_norm": True,
    "attn_res_block_size": 12, "linear_attn_config": {
        "full_attn_layers": [*range(4, 93, 4), 93], "head_dim": 128, "num_heads": 96, "short_conv_kernel_size": 4,
        "use_full_rank_gate": True,
    },
}  # fmt: skip
_GPT2 = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257, "n_positions": 1024}

PUBLISHED: dict[str, tuple[dict[str, object], int]] = {
    "Llama-3.1 8B": (_LLAMA3, 8_030_261_248),
    "Llama-3.1 70B": (
        {**_LLAMA3, "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
         "num_attention_heads": 64},
        70_553_706_496,
    ),
    "Llama-3.1 405B": (
        {**_LLAMA3, "hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": 126,
         "num_attention_heads": 128},
        405_853_388_800,
    ),
    "Mixtral 8x7B": (
        {**_LLAMA3, "model_type": "mixtral", "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2},
        46_702_792_704,
    ),
    "Qwen3 235B-A22B": (
        {
            "model_type": "qwen3_moe", "hidden_size": 4096, "intermediate_size": 12288, "moe_intermediate_size": 1536,
            "num_hidden_layers": 94, "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128,
            "vocab_size": 151936, "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1,
            "mlp_only_layers": [], "tie_word_embeddings": False, "attention_bias": False,
        },
        235_093_634_560,
    ),
    # 671,026,419,200 with the 256 numbers of each of 58 routers that balance loads, which no gradient changes
    "DeepSeek-V3": (_DEEPSEEK_V3, 671_026_419_200 - 58 * 256),
    # 1,026,408,232,448 with the 384 numbers of each of 60 routers
    "Kimi K2": (
        {**_DEEPSEEK_V3, "model_type": "kimi_k2", "num_attention_heads": 64, "num_key_value_heads": 64,
         "vocab_size": 163840, "n_routed_experts": 384, "first_k_dense_replace": 1, "num_nextn_predict_layers": 0},
        1_026_408_232_448 - 60 * 384,
    ),
    # the tensors of its checkpoint for text have 2,779,484,478,208, with 896 numbers of each of 92 routers and 32 that
    # fill up A_log, a number for each of 96 heads, in 69 layers
    "Kimi K3": (_KIMI_K3, 2_779_484_478_208 - 92 * 896 - 69 * 32),
    "DeepSeekMoE 16B": (
        {
            "model_type": "deepseek", "hidden_size": 2048, "intermediate_size": 10944, "moe_intermediate_size": 1408,
            "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 102400,
            "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1,
            "moe_layer_freq": 1,
        },
        16_375_728_128,
    ),
    "Qwen 7B": (
        {
            "model_type": "qwen", "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
            "num_attention_heads": 32, "kv_channels": 128, "vocab_size": 151936, "no_bias": True,
            "tie_word_embeddings": False,
        },
        7_721_324_544,
    ),
    "gpt-oss 20B": (
        {
            "model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 24,
            "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 201088,
            "num_local_experts": 32, "num_experts_per_tok": 4, "sliding_window": 128, "attention_bias": True,
        },
        20_914_757_184,
    ),
    "Baichuan2 7B": (
        {
            "model_type": "baichuan", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
            "num_attention_heads": 32, "vocab_size": 125696, "tie_word_embeddings": False,
        },
        7_505_973_248,
    ),
    "ChatGLM3 6B": (
        {
            "model_type": "chatglm", "hidden_size": 4096, "ffn_hidden_size": 13696, "num_layers": 28,
            "num_attention_heads": 32, "kv_channels": 128, "multi_query_attention": True, "multi_query_group_num": 2,
            "padded_vocab_size": 65024, "add_qkv_bias": True, "add_bias_linear": False, "rmsnorm": True,
            "layernorm_epsilon": 1e-5, "attention_dropout": 0.0,
        },
        6_243_584_000,
    ),
    "InternLM2 7B": (
        {
            "model_type": "internlm2", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
            "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 92544, "bias": False,
        },
        7_737_708_544,
    ),
    "GPT-2": (_GPT2, 124_439_808),
    "GPT-2 XL": ({**_GPT2, "n_embd": 1600, "n_layer": 48, "n_head": 25}, 1_557_611_200),
}  # fmt: skip
