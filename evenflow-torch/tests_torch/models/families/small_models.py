"""Small configurations of every model type of `FAMILIES`."""

from typing import Any

SIZES: dict[str, Any] = {
    "vocab_size": 32,
    "hidden_size": 16,
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "intermediate_size": 24,
    "max_position_embeddings": 64,
    "n_positions": 64,
    "max_seq_len": 64,
    "rotary_dim": 4,
    "d_ff": 24,
    "d_kv": 4,
    "ffn_dim": 24,
    "num_decoder_layers": 3,
    "encoder_layers": 3,
    "decoder_layers": 3,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "type_vocab_size": 2,
    # Other than the width, so that a projection that is left out shows.
    "word_embed_proj_dim": 8,
    "attention_types": [[["global", "local"], 1], [["global"], 1]],
    "scale_embedding": True,
    "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0,
    **dict.fromkeys(
        ("resid_pdrop", "embd_pdrop", "attn_pdrop", "embed_dropout", "resid_dropout", "attention_dropout"), 0.0
    ),
    **dict.fromkeys(("hidden_dropout", "hidden_dropout_prob", "attention_probs_dropout_prob", "dropout"), 0.0),
    **dict.fromkeys(("dropout_rate", "activation_dropout"), 0.0),
    **dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"), 1),
}


def small(model_type: str, **sizes: Any) -> dict[str, Any]:
    """Return a configuration without dropout."""
    return {**SIZES, "model_type": model_type, **sizes}
