"""The sizes in a configuration under all of their names."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from evenflow.errors import InputError
from evenflow.fields import Fields, is_integer
from evenflow.language import _
from evenflow.ranges import MODEL_LAYERS, MODEL_SIZE, TOKENS, Range

SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "n_embd", "d_model", "dim", "embedding_dim", "embed_dim"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_blocks", "layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"),
    "kv_heads": (
        "num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads", "multi_query_group_num",
        "attn_config.kv_n_heads", "num_attention_groups",
    ),
    "head_dim": ("head_dim", "kv_channels", "attention_head_dim", "dim_head", "d_head",
        "attention_head_size",
    ),
    "ffn": ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "d_ff", "dff", "dim_ff", "d_inner",
        "feed_forward_size",
    ),
    "dense_ffn": ("intermediate_size_mlp", "dense_intermediate_size", "prefix_dense_intermediate_size"),
    "vocabulary": ("vocab_size", "padded_vocab_size", "n_token"),
    "positions": ("n_positions", "max_position_embeddings", "max_seq_len"),
    "experts": (
        "num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts", "ffn_config.moe_num_experts",
    ),
    "active": (
        "num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "moe_k", "top_k",
        "top_k_experts", "ffn_config.moe_top_k",
    ),
    "expert_ffn": ("moe_intermediate_size", "expert_ffn_hidden_size", "ffn_config.ffn_hidden_size"),
    "shared_experts": (
        "n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts",
    ),
    "shared_ffn": (
        "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size",
        "shared_experts_intermediate_size", "share_expert_dims", "share_expert_dim",
    ),
    "dense_layers": ("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index", "dense_mlp_idx"),
    "query_rank": ("q_lora_rank",),
    "key_value_rank": ("kv_lora_rank",),
    "rotary_dim": ("qk_rope_head_dim",),
    "plain_dim": ("qk_nope_head_dim",),
    "value_dim": ("v_head_dim",),
    "window": ("sliding_window", "sliding_window_size", "window_size", "attention_chunk_size", "attention_window_size"),
    "state_heads": ("mamba_num_heads", "mamba_n_heads", "n_mamba_heads", "num_heads"),
    "state_head_dim": ("mamba_head_dim", "mamba_d_head"),
    "state_inner": ("mamba_d_ssm",),
    "state_size": ("ssm_state_size", "mamba_d_state", "state_size"),
    "state_groups": ("n_groups", "mamba_n_groups", "mamba_ngroups"),
    "state_kernel": (
        "conv_kernel", "mamba_d_conv", "linear_conv_kernel_dim", "conv_L_cache",
        "linear_attn_config.short_conv_kernel_size",
    ),
    "state_chunk": ("chunk_size", "mamba_chunk_size", "block_size"),
    "state_expand": ("mamba_expand", "expand"),
    "step_rank": ("mamba_dt_rank", "time_step_rank"),
    "key_heads": ("linear_num_key_heads",),
    "value_heads": ("linear_num_value_heads",),
    "key_width": ("linear_key_head_dim",),
    "value_width": ("linear_value_head_dim",),
    "linear_heads": ("linear_num_heads", "linear_attn_config.num_heads"),
    "linear_width": ("linear_head_dim", "linear_attn_config.head_dim"),
    "attention_width": ("attention_hidden_size",),
    "recurrent_width": ("lru_width",),
    "recurrent_kernel": ("conv1d_width",),
    "index_heads": (
        "index_n_heads", "sparse_num_index_heads", "indexer_n_heads", "sparse_attention_config.sparse_num_index_heads",
    ),
    "index_width": (
        "index_head_dim", "sparse_index_dim", "indexer_head_dim", "sparse_attention_config.sparse_index_dim",
    ),
    "index_chosen": ("index_topk", "indexer_budget"),
    "index_block": ("index_block_size", "sparse_block_size", "sparse_attention_config.sparse_block_size"),
    "index_blocks": ("index_topk_blocks", "sparse_topk_blocks", "sparse_attention_config.sparse_topk_blocks"),
    "index_offset": ("index_skip_topk_offset",),
    "index_pool": ("index_kpool", "indexer_compress_ratio"),
    "norm_rank": ("gated_norm_rank",),
    "out_rank": ("o_lora_rank",),
    "out_groups": ("o_groups",),
    "streams": ("hc_mult", "altup_num_inputs", "hc_count"),
    "stream_rank": ("hc_lowrank",),
    "ngram_width": ("ple_embed_dim",),
    "ngram_kernel": ("ple_conv_kernel_size",),
    "ngram_rows": ("ngram_vocab_size_base",),
    "ngram_multiple": ("make_ngram_vocab_size_divisible_by",),
    "residual_rank": ("laurel_rank",),
    "layer_input": ("hidden_size_per_layer_input",),
    "layer_input_vocabulary": ("vocab_size_per_layer_input",),
    "shared_key_layers": ("num_kv_shared_layers",),
    "idle_experts": ("zero_expert_num",),
    "expert_groups": ("n_group",),
    "chosen_groups": ("topk_group",),
    "router_width": ("router_hidden_size",),
    "keys_kernel": ("cca_time0",),
    "heads_kernel": ("cca_time1",),
    "bias_width": ("d_rel",),
    "bias_reach": ("rel_extent",),
    "residual_block": ("n_layers_per_attn_res_block", "attn_res_block_size"),
    "output_vocabulary": ("unpadded_vocab_size",),
    "further_vocabulary": ("additional_vocab_size",),
    "short_kernel": ("sconv_kernel_size", "conv_kernel_size"),
    "segments": ("segment_types",),
    "prompts": ("prompt_types",),
    "prompt_length": ("prompt_length",),
    "position_buckets": ("position_bias_num_buckets",),
    "attention_offset": ("attn_layer_offset",),
    "experts_offset": ("expert_layer_offset",),
    "shared_rank": ("adapter_rank",),
    "input_layers": ("n_input_layers",),
    "recurrent_layers": ("n_recurrent_layers",),
    "output_layers": ("n_output_layers",),
    "stack_layers": ("num_layers_per_stack",),
    "loop_passes": ("loop_config.num_passes", "loop_num_passes", "n_recurrent_loops"),
    "loop_first": ("loop_config.core_start", "loop_layer_index_start"),
    "loop_end": ("loop_config.core_end", "loop_layer_index_end"),
    "loop_rank": ("loop_config.gate_rank", "loop_gate_rank"),
    "patch_size": ("patch_size",),
    "patch_parts": ("cross_attn_k",),
    "patch_hidden": ("hidden_size_global",),
    "patch_window": ("local_attention_window_len",),
    "hash_rows": ("encoder_hash_byte_group_vocab",),
    "hash_functions": ("encoder_hash_byte_group_nb_functions",),
    "local_chunk": ("local_attn_chunk_length",),
    "local_before": ("local_num_chunks_before",),
    "hash_chunk": ("lsh_attn_chunk_length",),
    "hash_before": ("lsh_num_chunks_before",),
    "hashes": ("num_hashes",),
    "experts_width": ("moe_latent_size", "moe_hidden_size", "routed_expert_hidden_size"),
    "predicted_tokens": ("num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers",
        "mtp_config.num_nextn_predict_layers",
    ),
}  # fmt: skip
"""Fields of configurations by what they say; of several that a file has, the first. A dot leads into an object."""

_RANGES: Mapping[str, Range] = {"layers": MODEL_LAYERS, "positions": TOKENS, "window": TOKENS}
_MAY_BE_ZERO = frozenset(
    (
        "experts",
        "shared_experts",
        "shared_ffn",
        "dense_layers",
        "query_rank",
        "rotary_dim",
        "index_offset",
        "predicted_tokens",
        "window",
        "attention_offset",
        "experts_offset",
        "layer_input",
        "shared_key_layers",
        "idle_experts",
        "expert_groups",
        "chosen_groups",
        "further_vocabulary",
        "input_layers",
        "recurrent_layers",
        "output_layers",
        "local_before",
        "hash_before",
    )
)
_MAY_FOLLOW = frozenset(("state_head_dim", "step_rank"))
"""Sizes that may be ``auto``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A configuration of which every size is found under any of its names."""

    fields: Fields

    def changed(self, values: Mapping[str, object]) -> "Configuration":
        """Return the configuration with these values in the place of its own."""
        merged = {**self.fields.values, **values}
        return Configuration(fields=Fields(values=merged, file=self.fields.file, path=self.fields.path))

    def value(self, key: str) -> object:
        """Return what the file has under `key`, where a dot leads into an object; None for nothing."""
        outer, _dot, inner = key.partition(".")
        value = self.fields.values.get(outer)
        if not inner:
            return value
        return value.get(inner) if isinstance(value, dict) else None

    def spelling(self, name: str) -> str | None:
        """Return the first spelling of `name` that has a value."""
        return next((key for key in SPELLINGS[name] if self.value(key) is not None), None)

    def size(self, name: str) -> int | None:
        """Return a size, or None where the file does not say it; of a list with an entry for each layer, its one value.

        Raises:
            InputError: a value that is no integer of its range, or layers that differ.
        """
        key = self.spelling(name)
        if key is None:
            return None
        value = self.value(key)
        if value == "auto" and name in _MAY_FOLLOW:
            return None
        if isinstance(value, list) and value and all(of_layer == value[0] for of_layer in value):
            value = value[0]
        within = _RANGES.get(name, MODEL_SIZE)
        least = 0 if name in _MAY_BE_ZERO else within.least
        if isinstance(value, list) and all(map(is_integer, value)):
            raise InputError(value=value, rule=_("must be the same for all layers"), place=self.fields.place(key))
        if is_integer(value) and least <= value <= within.most:
            return value
        rule = Range(least=least, most=within.most).rule
        raise InputError(value=value, rule=rule, place=self.fields.place(key))

    def required(self, name: str) -> int:
        """Return a size that every transformer must state."""
        size = self.size(name)
        if size is None:
            first, *others = SPELLINGS[name]
            raise InputError(
                rule=_("must have the field {key!r}", key=first),
                place=self.fields.place(),
                remedy=_("write it, under this name or as {others}", others=", ".join(others)) if others else "",
            )
        return size

    def flag(self, key: str, default: bool = False) -> bool:
        """Return true or false; `default` where the file does not say it."""
        if self.value(key) is None:
            return default
        return self.fields.flag(key)

    def first_flag(self, keys: Iterable[str], default: bool = False) -> bool:
        """Return the first of several flags that the file has; `default` where it has none."""
        return next((self.fields.flag(key) for key in keys if self.value(key) is not None), default)

    def step(self, key: str, default: int = 1) -> int:
        """Return every how many layers one is of a kind; `default` where the file does not say it.

        Raises:
            InputError: what is no integer of at least 1.
        """
        value = self.value(key)
        if value is None:
            return default
        if not is_integer(value) or value < 1:
            raise InputError(value=value, rule=_("must be an integer of at least 1"), place=self.fields.place(key))
        return value

    def integers(self, key: str) -> list[int]:
        """Return a list of integers; raises InputError for anything else."""
        value = self.value(key)
        if not isinstance(value, list) or not all(map(is_integer, value)):
            raise InputError(value=value, rule=_("must be a list of integers"), place=self.fields.place(key))
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts with one for each layer; empty where the file has none."""
        return () if self.value(key) is None else self.fields.texts(key)
