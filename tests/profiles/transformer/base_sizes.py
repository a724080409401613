"""Sizes that small configurations of many model types share."""

LLAMA = {
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 203,
    "pad_token_id": None,
}
WIDE = {**LLAMA, "head_dim": 24}
MLA = {
    **LLAMA,
    "num_key_value_heads": 8,
    "kv_lora_rank": 20,
    "q_lora_rank": 28,
    "qk_rope_head_dim": 6,
    "qk_nope_head_dim": 10,
    "v_head_dim": 14,
}
MANY = {"n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 40}
DELTA = {
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 12, "linear_value_head_dim": 20,
    "linear_conv_kernel_dim": 4,
}  # fmt: skip
