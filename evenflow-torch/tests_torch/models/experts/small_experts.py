"""A small mixture of experts, as its ``config.json`` describes it."""

SMALL_EXPERTS: dict[str, object] = {
    "model_type": "qwen3_moe", "hidden_size": 16, "intermediate_size": 32, "moe_intermediate_size": 24,
    "num_experts": 8, "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 8, "vocab_size": 32, "mlp_only_layers": [0],
}  # fmt: skip
