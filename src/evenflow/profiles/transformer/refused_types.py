"""Models that are not read: by their type, or by a field that only such models have."""

from collections.abc import Mapping

from evenflow.language import to_translate

_ENCODER_DECODER = to_translate("its decoder reads from an encoder, and only decoders are predicted")
_ENCODER = to_translate("it is an encoder, and only decoders are predicted")
STATE_SPACE = to_translate("it has layers with a state in the place of attention, whose times are not predicted")
_DRAFTS = to_translate("it drafts tokens for another model, without whose keys and values it computes nothing")
_CROSS = to_translate("some of its layers attend to images, whose number of tokens its fields do not tell")
_ACTIONS = to_translate(
    "a model for actions is computed beside it, reads the keys and values of its layers and is all that has a loss"
)
_FURTHER = to_translate("it has further parts in every layer, which its fields do not tell")

REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "t5", "mt5", "umt5", "longt5", "switch_transformers", "t5gemma", "bart", "mbart", "pegasus", "marian",
            "blenderbot", "whisper", "m2m_100", "nllb-moe", "led", "prophetnet", "plbart", "bigbird_pegasus", "trocr",
            "blip", "blip_text_model", "diffusion_gemma", "diffusion_gemma_text", "evolla",
        ),
        _ENCODER_DECODER,
    ),
    **dict.fromkeys(
        (
            "bert", "roberta", "electra", "deberta", "deberta-v2", "albert", "distilbert", "modernbert", "xlm-roberta",
            "git",
        ),
        _ENCODER,
    ),
    **dict.fromkeys(
        (
            "minimax_text_01",
        ),
        STATE_SPACE,
    ),
    **dict.fromkeys(("gemma4_assistant", "gemma4_unified_assistant"), _DRAFTS),
    "pi0": _ACTIONS,
    "xlm": _ENCODER,
    "bert-generation": _ENCODER,
}  # fmt: skip
"""Why models of a type are not read, by the model type."""

INSTEAD: Mapping[str, str] = dict.fromkeys(
    ("gemma4_assistant", "gemma4_unified_assistant"),
    to_translate("give the configuration of the model that it drafts for, which is trained without it"),
)
"""What to do in their place, by the model type, where that is not to describe layers or to measure modules."""

REFUSED_FIELDS: Mapping[str, str] = {
    "encoder_layers": _ENCODER_DECODER,
    "num_decoder_layers": _ENCODER_DECODER,
    "type_vocab_size": _ENCODER,
    "state_size": STATE_SPACE,
    "ssm_cfg": STATE_SPACE,
    "mamba_d_state": STATE_SPACE,
    "mamba_d_conv": STATE_SPACE,
    "mamba_num_heads": STATE_SPACE,
    "lru_width": STATE_SPACE,
    "linear_num_key_heads": STATE_SPACE,
    "linear_conv_kernel_dim": STATE_SPACE,
    "linear_attn_config": STATE_SPACE,
    "conv_L_cache": STATE_SPACE,
    "hidden_size_per_layer_input": _FURTHER,
    "hc_mult": _FURTHER,
    "hc_count": _FURTHER,
    "altup_num_inputs": _FURTHER,
    "laurel_rank": _FURTHER,
    "zero_expert_num": _FURTHER,
    "cross_attention_layers": _CROSS,
}
"""Why a model whose configuration has a field is not read."""
