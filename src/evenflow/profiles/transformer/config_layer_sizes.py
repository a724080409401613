"""Sizes of layers in a configuration: those that all layers have, and those of layers that differ."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from evenflow.errors import InputError
from evenflow.fields import is_integer_list
from evenflow.language import _
from evenflow.predict.layer_parts import Addition, ImageAttention, Loop
from evenflow.predict.transformer import LatentAttention, LayersWithState, OwnSizes, SharedBlocks
from evenflow.profiles.transformer.config_chunks import chunked_layer, chunks_of
from evenflow.profiles.transformer.config_further import Further
from evenflow.profiles.transformer.config_image_layers import image_layer
from evenflow.profiles.transformer.config_latent import key_sources, sizes_without_positions, with_key_source
from evenflow.profiles.transformer.config_layer import LayerSizes, layer_sizes
from evenflow.profiles.transformer.config_layers import check_length
from evenflow.profiles.transformer.config_loops import looped_parts
from evenflow.profiles.transformer.config_ngrams import ngram_parts
from evenflow.profiles.transformer.config_residuals import residual_of_layer, residual_of_tail, with_separate_inputs
from evenflow.profiles.transformer.config_shared import parts_beside_shared
from evenflow.profiles.transformer.spellings import SPELLINGS, Configuration
from evenflow.profiles.transformer.traits import ModelTypeTraits

_LISTED = {
    "intermediate_size": "intermediate_size",
    "num_attention_heads": "num_attention_heads",
    "num_attention_heads_per_layer": "num_attention_heads",
    "num_key_value_heads": "num_key_value_heads",
    "head_dim": "head_dim",
}
"""Fields that may list a size for each layer, and the field that says it for all."""
_OF_WINDOWS = {
    "attention_other_setting.num_attention_heads": "num_attention_heads",
    "num_sliding_attention_heads": "num_attention_heads",
    "swa_num_attention_heads": "num_attention_heads",
    "swa_num_key_value_heads": "num_key_value_heads",
    "swa_head_dim": "head_dim",
    "swa_v_head_dim": "v_head_dim",
    "sliding_window_size": "rel_extent",
}
"""Fields for the layers with a window, which is as far as a learned bias of positions reaches there."""
_OF_WHOLE = {"global_head_dim": "head_dim", "num_global_key_value_heads": "num_key_value_heads"}
"""Fields for the layers that see all tokens."""
_BY_LAYER = "per_layer_config"
_OF_ONE = (
    "heads", "kv_heads", "head_dim", "value_dim", "ffn", "dense_ffn", "query_rank", "key_value_rank", "rotary_dim",
    "plain_dim", "bias_reach",
)  # fmt: skip
_OF_ALL = frozenset(key for name, keys in SPELLINGS.items() if name not in _OF_ONE for key in keys)
"""Fields that no layer has of its own."""
_COMPRESSED = {"compressed_sparse_attention": (2, 4), "heavily_compressed_attention": (1, 128)}
"""Kinds of layers that see earlier tokens made one of several: their keys' width in heads, and of how many tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizesOfLayers:
    """The usual sizes, and each layer's own; none where all layers are alike."""

    usual: LayerSizes
    own: tuple[OwnSizes | None, ...]


def sizes_of_layers(
    config: Configuration,
    family: ModelTypeTraits,
    states: LayersWithState,
    *,
    layers: int,
    has_experts: bool,
    windows: tuple[bool, ...],
    kinds: tuple[str, ...],
    shared: SharedBlocks | None = None,
    images: ImageAttention | None = None,
    loops: tuple[Loop, ...] = (),
) -> SizesOfLayers:
    """Return the sizes of all layers.

    Raises:
        InputError: a missing or wrong size, a list that does not fit the number of layers.
    """
    base = _without_lists(config)
    usual = layer_sizes(base, family, states, layers=layers, has_experts=has_experts)
    changed = _changes(config, family, layers, windows)
    own, ngrams = [], ngram_parts(base, layers=layers)
    chunks = chunks_of(base, family.chunked, layers=layers)
    sources, latents = key_sources(base, layers=layers), list[LatentAttention]()
    hidden, every = config.required("hidden"), config.size("residual_block") or 0
    for layer in range(layers):
        sizes = usual
        if changed[layer]:
            sizes = layer_sizes(base.changed(changed[layer]), family, states, layers=layers, has_experts=has_experts)
        if layer == 0 and family.first_norm_outside:
            sizes = replace(sizes, norms=replace(sizes.norms, of_layer=sizes.norms.of_layer - 1))
        if family.sinks_in_windows:
            sizes = replace(sizes, sinks=windows[layer])
        sizes = _with_keys(base, family, sizes, layer=layer, layers=layers, window=windows[layer])
        if sources and sizes.latent is not None:
            latents.append(sizes.latent)
            sizes = with_key_source(sizes, sources, latents)
        if kinds and kinds[layer] in _COMPRESSED:
            sizes = _compressed(base, sizes, kinds[layer])
        if layer in ngrams:
            sizes = replace(sizes, further=sizes.further + Further(layer=(ngrams[layer],)))
        is_separate = family.separate_inputs and not windows[layer]
        if is_separate:
            sizes = with_separate_inputs(base, sizes)
        if every:
            if family.normed_residuals:
                vectors = 4  # a norm and a query of attention's, in the first layer too, and of the MLP's
            else:
                vectors = 1 + ((3 if is_separate else 1) if layer else 0)
            of_blocks = residual_of_layer(hidden, layer=layer, every=every, vectors=vectors)
            sizes = replace(sizes, further=sizes.further + of_blocks)
        if shared is not None and layer in shared.layers:
            beside = parts_beside_shared(base, family, hidden=hidden)
            sizes = replace(sizes, further=sizes.further + beside)
        if images is not None and layer in images.layers:
            sizes = image_layer(base, sizes, hidden=hidden)
        if chunks:
            sizes = chunked_layer(sizes, chunks[layer])
        if family.loop:
            of_loop = looped_parts(base, family.loop, loops, layer=layer, hidden=hidden)
            sizes = replace(sizes, further=sizes.further + of_loop)
        own.append(sizes.beside(usual))
    if every:
        usual = replace(
            usual,
            further=usual.further
            + residual_of_tail(hidden, layers=layers, every=every, vectors=2 if family.normed_residuals else 1),
        )
    if shared is not None:  # they read the embedding
        usual = replace(usual, further=usual.further + Further(carried=hidden))
    return SizesOfLayers(usual=usual, own=tuple(own) if any(own) else ())


def _changes(
    config: Configuration, family: ModelTypeTraits, layers: int, windows: tuple[bool, ...]
) -> tuple[dict[str, object], ...]:
    """Return what each layer states of its own, by the field that says it for all."""
    changed: tuple[dict[str, object], ...] = tuple({} for _layer in range(layers))
    for key, field in _LISTED.items():
        value = config.value(key)
        if is_integer_list(value) and len(set(value)) > 1:
            check_length(config, key, layers)
            for layer in range(layers):
                changed[layer][field] = value[layer]
    for layer, has_window in enumerate(windows):
        for key, field in (_OF_WINDOWS if has_window else _OF_WHOLE).items():
            if config.value(key) is not None:
                changed[layer][field] = config.value(key)
        if has_window and family.doubled_keys_in_windows:
            changed[layer]["num_key_value_heads"] = 2 * config.required("kv_heads")
    if family.wider_without_positions:
        for layer, fields in sizes_without_positions(config, layers=layers).items():
            changed[layer].update(fields)
    for layer, values in _listed_by_layer(config, layers).items():
        changed[layer].update(values)
    return changed


def _listed_by_layer(config: Configuration, layers: int) -> dict[int, Mapping[str, object]]:
    """Return the fields of single layers that the file has under their numbers."""
    found: dict[int, Mapping[str, object]] = {}
    listed = config.value(_BY_LAYER)
    if listed is None:
        return found
    for key, values in listed.items() if isinstance(listed, dict) else ((listed, None),):
        if not (isinstance(key, str) and key.isdecimal() and int(key) < layers and isinstance(values, dict)):
            rule = _("must name layers from 0 to {last}, each with an object of its fields", last=layers - 1)
            raise InputError(value=key, rule=rule, place=config.fields.place(_BY_LAYER))
        for field, value in values.items():
            if field in _OF_ALL and value != config.value(field):
                rule = _("must be the same for all layers")
                raise InputError(value=value, rule=rule, place=config.fields.place(f"{_BY_LAYER}.{key}.{field}"))
        found[int(key)] = values
    return found


def _without_lists(config: Configuration) -> Configuration:
    """Return a configuration with the most frequent number of a list for each layer in its place."""
    usual: dict[str, object] = {}
    for key, field in _LISTED.items():
        value = config.value(key)
        if is_integer_list(value) and value:
            usual[field] = Counter(value).most_common(1)[0][0]
    return config.changed(usual) if usual else config


def _with_keys(
    config: Configuration, family: ModelTypeTraits, sizes: LayerSizes, *, layer: int, layers: int, window: bool
) -> LayerSizes:
    """Return the sizes of a layer whose keys and values are one, or those of an earlier layer."""
    if family.keys_are_values or (config.flag("attention_k_eq_v") and not window):
        sizes = replace(sizes, key_products=1)
    if layer < layers - (config.size("shared_key_layers") or 0):
        return sizes
    wider = 2 if config.flag("use_double_wide_mlp") else 1
    ffn = None if sizes.ffn is None else wider * sizes.ffn
    return replace(sizes, key_products=0, norms=replace(sizes.norms, keys=0), ffn=ffn)


def compressed_tokens(config: Configuration, kind: str) -> int:
    """Return of how many tokens a layer of this kind makes one."""
    rates = config.value("compress_rates")
    rate = rates.get(kind) if isinstance(rates, dict) else None
    return rate if isinstance(rate, int) and rate >= 1 else _COMPRESSED[kind][1]


def _compressed(config: Configuration, sizes: LayerSizes, kind: str) -> LayerSizes:
    """Return the sizes of a layer that sees earlier tokens made one of several. [DeepSeek-V4]"""
    hidden, width = config.required("hidden"), sizes.head_dim or 1
    wide, rate = _COMPRESSED[kind][0] * width, compressed_tokens(config, kind)
    both = Addition(name="compressor", products=((hidden, wide),) * 2, numbers=2 * wide, small=width + rate * wide)
    return replace(sizes, together=rate, further=replace(sizes.further, layer=(*sizes.further.layer, both)))
