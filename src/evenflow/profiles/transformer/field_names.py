"""Names of fields in a configuration that are one edit away from one that is read: nobody means them."""

import re
from collections.abc import Iterable, Iterator, Mapping

from evenflow.errors import InputError
from evenflow.fields import Fields, as_fields, is_integer
from evenflow.language import _
from evenflow.profiles.transformer.families import FAMILIES
from evenflow.profiles.transformer.refused_types import REFUSED_FIELDS
from evenflow.profiles.transformer.spellings import SPELLINGS
from evenflow.profiles.transformer.traits import ONLY, SWITCHED

LAYER_NORMS = ("layer_norm_eps", "layer_norm_epsilon", "layernorm_epsilon", "norm_epsilon")
DROPOUTS = (
    "dropout",
    "attention_dropout",
    "hidden_dropout",
    "resid_pdrop",
    "attn_pdrop",
    "embd_pdrop",
    "resid_dropout",
)
TEXT_PARTS = ("text_config", "llm_config", "language_config", "thinker_config")
BESIDE_TEXT = ("mtp_config",)
"""Objects about the decoder that stand beside its part."""
OTHER_PARTS = ("vision_config", "audio_config", "visual")
SPEAKING_PART = "talker_config"
_OTHERS = (
    "model_type", "tie_word_embeddings", "hidden_act", "activation_function", "rms_norm_eps", "expansion_ratio",
    "new_decoder_architecture", "multi_query", "num_ln_in_parallel_attn", "mlp_layer_types", "moe_layers",
    "moe_layer_freq", "moe_layer_end_index", "mlp_only_layers", "decoder_sparse_step", "moe_layer_interval",
    "interleave_moe_layer_step", "layer_types", "attention_layers", "use_sliding_window", "max_window_layers",
    "sliding_window_pattern", "is_encoder_decoder", "word_embed_proj_dim", "index_head_dim", "hybrid_override_pattern",
    "layers_block_type", "attn_layer_indices", "full_attn_idxs", "full_attention_interval", "attn_layer_period",
    "expert_layer_period", "block_auto_adjust_ff_dim", "block_ffn_dim_multiplier", "block_multiple_of", "conv_bias",
    "use_conv_bias", "mamba_conv_bias", "mamba_proj_bias", "projectors_bias", "mamba_rms_norm", "per_layer_config",
    "_sliding_window_pattern", "indexer_types", "index_topk_pattern", "index_topk_freq",
    "index_kpool_always_select_tail", "ple_layer_ids", "local_layer_ids", "ngram_size", "heads_per_ngram",
    "compress_ratios", "compress_rates", "block_types", "attention_k_eq_v",
    "use_double_wide_mlp", "num_attention_heads_per_layer", "swa_num_attention_heads", "swa_num_key_value_heads",
    "swa_head_dim", "swa_v_head_dim", "global_head_dim", "num_global_key_value_heads", "intermediate_multiple_size",
    "qk_dim_factor", "v_dim_factor", "ffn_proj_factor", "ffn_round_up_to_multiple_of", "output_vocab_size",
    "projector_bias", "projector_ln_mid", "attention_other_setting", "num_sliding_attention_heads", "moe_layers_enum",
    "no_rope_layers", "no_rope_layer_interval", "kv_source_layers", "n_mamba_heads", "num_mem_blocks",
    "use_mem_rope", "use_shared_attention_adapter", "H_cycles", "L_cycles", "L_bp_cycles",
    "cross_layer_interval", "qk_layer_norms", "alpha_type", "attn_type",
    "cross_attn_all_layers", "encoder_hash_byte_group_size", "encoder_config", "global_config", "decoder_config",
    "patcher_config", "patch_in_forward", "attn_layers", "num_buckets", "axial_pos_embds", "axial_pos_shape",
    "axial_pos_embds_dim", "latent_moe_use_norm", "linear_attn_config", "use_full_rank_gate",
)  # fmt: skip
KNOWN = frozenset(
    [part for names in SPELLINGS.values() for name in names for part in name.split(".")]
    + [
        *SWITCHED,
        *REFUSED_FIELDS,
        *LAYER_NORMS,
        *DROPOUTS,
        *TEXT_PARTS,
        *OTHER_PARTS,
        *BESIDE_TEXT,
        SPEAKING_PART,
        *_OTHERS,
    ]
    + [
        name
        for family in FAMILIES.values()
        for name in (
            *family.switched,
            *family.on,
            *family.defaults,
            *family.only,
            *ONLY,
            family.one_norm_flag,
            family.head_norms_flag,
            family.head_norms_key,
            family.four_norms_flag,
            family.gate_key,
            family.output_gate_flag,
            family.experts_flag,
        )
        if name
    ]
)
"""Every name that decides what is read."""
_OF_OTHER_MODELS = frozenset(
    ("block_sizes", "emb_pdrop", "embed_dims", "fpn_hidden_size", "hidden_sizes", "k_groups",
     "l_layers", "layer_type", "mamba_headdim", "mamba_ngroups", "mtp_layer_types", "o_groups",
     "o_lora_rank", "q_groups", "qv_bias", "r_layers", "shared_experts_intermediate_size", "sliding_windows",
     "type_vocab_sizes",
     "v_channels", "v_groups", "vlm_config", "x_layers")
)  # fmt: skip
"""Names that configurations of transformers really have."""
_WITHOUT_PARTS = re.compile(
    r"_ids?$|token|^id2label$|^label2id$|quantization|_map$|task_specific|rope|rotary|^max_|eps$|^output_|^return_"
    r"|^use_cache$|^architectures$|dtype|version|init"
    r"|group$|^norm_topk|^pretraining_tp$|^n_group|scal|softcap|aux_loss|logits|^scale_|_index$|position"
)
"""Names of fields that say how a model computes or is used, and not what it consists of."""
_WITHOUT_PARTS_IN_FAMILIES = frozenset(
    (
        "activation_sparsity_pattern", "add_out_norm", "attention_softmax_in_fp32", "attention_types",
        "attn_temperature_tuning", "context_length", "dim_model_base", "do_sample", "early_stopping",
        "enable_moe_fp32_combine", "end_n_top", "ep_size", "global_attn_every_n_layers", "hc_sinkhorn_iters",
        "is_decoder", "kda_layers", "kda_safe_gate", "keep_window_size", "layer_group_size", "learned_pos_emb",
        "linear_allow_neg_eigval", "local_attention", "mamba_headdim", "mamba_norm_before_gate", "mem_len",
        "mla_use_nope", "mlp_multipliers", "model_max_length", "moe_renormalize", "moe_router_enable_expert_bias",
        "moe_shared_expert_overlap", "mtp_hidden_states_first", "mtp_layers_block_type", "n_ctx", "no_bias",
        "norm_reduction_force_float32", "num_beams", "num_codebooks", "num_expert_group", "num_query_groups",
        "number_of_conv_states", "prefix_lm", "qk_head_dim", "residual_in_fp32", "seed", "seq_aux",
        "shared_expert_sink", "split_ngram_parts", "ssm_multipliers", "start_n_top", "summary_proj_to_labels",
        "summary_use_proj", "time_step_limit", "top_k", "use_associative_scan", "use_bidirectional_attention",
        "use_expert_bias", "use_flash_attn", "use_gemma_norm", "use_grouped_topk", "use_mamba_kernels",
        "use_mems_eval", "use_mrope", "use_routing_bias",
    )
)  # fmt: skip
"""The same, in types that are known: that they change no number of parameters, `make check-architectures` shows."""
_SHORTEST = 5
"""Shorter names are near too many others."""


def unread_fields(fields: Fields, *, is_known: bool) -> tuple[str, ...]:
    """Return the names that say a number, a list, an object or yes, and that nothing here knows.

    Where the type of the model `is_known`, it is known of more names that they add nothing.
    """
    return tuple(
        name
        for name, value in fields.values.items()
        if (value is True or (is_integer(value) and value > 1) or (isinstance(value, list | dict) and value))
        and name not in KNOWN
        and not _WITHOUT_PARTS.search(name)
        and not (is_known and (name in _WITHOUT_PARTS_IN_FAMILIES or name.startswith("freeze_")))
    )


def misspelt(fields: Fields) -> dict[str, str]:
    """Return for each name of `fields` that is one edit away from a known one that known name."""
    return {
        name: known
        for name in fields.values
        if name not in KNOWN and name not in _OF_OTHER_MODELS and (known := _near(name, KNOWN))
    }


def refuse_misspelt(config: Fields) -> None:
    """Raise InputError for the first name in a configuration, and in the objects in it, that is misspelt."""
    for fields in _objects(config):
        for name, known in misspelt(fields).items():
            raise misspelt_error(fields, name, known)


def misspelt_error(fields: Fields, name: str, known: str) -> InputError:
    """Return the refusal of a misspelt name."""
    return InputError(
        rule=_("is an unknown field"), place=fields.place(name), remedy=_("did you mean {near!r}?", near=known)
    )


def corrected(config: Fields) -> Iterator[tuple[Fields, str, str, Fields | None]]:
    """Yield for each misspelt name its object, the name, the known name, and the whole configuration with that name.

    There is no such configuration where the known name has a value already.
    """
    for fields in _objects(config):
        for name, known in misspelt(fields).items():
            if fields.values.get(known) is not None:
                yield fields, name, known, None
                continue
            renamed = {known if key == name else key: value for key, value in fields.values.items() if key != known}
            yield fields, name, known, Fields(values=_replaced(config.values, fields.path, renamed), file=config.file)


def _objects(config: Fields) -> Iterator[Fields]:
    """Yield a configuration and the objects directly in it whose fields are read."""
    yield config
    parts = (*TEXT_PARTS, "ffn_config", "attn_config")
    for key in parts:
        if isinstance(config.values.get(key), dict):
            path = f"{config.path}.{key}".lstrip(".")
            yield from _objects(as_fields(config.values[key], file=config.file, path=path))


def _replaced(values: Mapping[str, object], path: str, by: Mapping[str, object]) -> Mapping[str, object]:
    """Return `values` with the object at a dotted path replaced."""
    if not path:
        return by
    first, _dot, rest = path.partition(".")
    inner = values[first]
    assert isinstance(inner, dict)
    return {**values, first: dict(_replaced(inner, rest, by))}


def _near(name: str, known: Iterable[str]) -> str:
    """Return the known name that is at most one edit away, whatever the letters' case; empty for none."""
    plain = name.lower().replace("-", "_").replace(" ", "")
    return next((other for other in sorted(known) if len(other) >= _SHORTEST and _is_one_edit(plain, other)), "")


def _is_one_edit(text: str, other: str) -> bool:
    """Return whether one letter more, less or other, or two swapped, or nothing at all, makes `other` of `text`.

    >>> _is_one_edit("hiden_size", "hidden_size"), _is_one_edit("hidden_sizes_", "hidden_size")
    (True, False)
    """
    if abs(len(text) - len(other)) > 1:
        return False
    shorter = min(len(text), len(other))
    start = next((index for index in range(shorter) if text[index] != other[index]), shorter)
    rest, other_rest = text[start:], other[start:]
    same_end = next(
        (index for index in range(min(len(rest), len(other_rest))) if rest[-1 - index] != other_rest[-1 - index]),
        min(len(rest), len(other_rest)),
    )
    rest, other_rest = rest[: len(rest) - same_end], other_rest[: len(other_rest) - same_end]
    return max(len(rest), len(other_rest)) <= 1 or (len(rest) == 2 and rest == other_rest[::-1])
