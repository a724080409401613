"""Sizes of one layer in a configuration: those that all layers have, and those of layers that differ."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from evenflow.errors import InputError
from evenflow.fields import Fields, is_integer_list
from evenflow.language import _
from evenflow.predict.layer_parts import Addition, NarrowEnds
from evenflow.predict.transformer import LatentAttention, LayersWithState, Norms, OwnSizes
from evenflow.profiles.transformer.config_additions import Further, Widths, further_parts
from evenflow.profiles.transformer.config_layers import check_length
from evenflow.profiles.transformer.families import ModelTypeTraits
from evenflow.profiles.transformer.spellings import Configuration
from evenflow.ranges import COEFFICIENT

_LISTED = {
    "intermediate_size": "intermediate_size",
    "num_attention_heads": "num_attention_heads",
    "num_attention_heads_per_layer": "num_attention_heads",
    "num_key_value_heads": "num_key_value_heads",
    "head_dim": "head_dim",
}
"""Fields that may list a size for each layer, and the field that says it for all."""
_OF_WINDOWS = {
    "swa_num_attention_heads": "num_attention_heads",
    "swa_num_key_value_heads": "num_key_value_heads",
    "swa_head_dim": "head_dim",
    "swa_v_head_dim": "v_head_dim",
}
"""Fields for the layers with a window."""
_OF_WHOLE = {"global_head_dim": "head_dim", "num_global_key_value_heads": "num_key_value_heads"}
"""Fields for the layers that see all tokens."""
_COMPRESSED = {"compressed_sparse_attention": (2, 4), "heavily_compressed_attention": (1, 128)}
"""Kinds of layers that see earlier tokens made one of several: their keys' width in heads, and of how many tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSizes:
    """The sizes of one layer."""

    heads: int
    kv_heads: int
    head_dim: int | None
    value_dim: int
    ffn: int | None
    latent: LatentAttention | None
    norms: Norms
    sinks: bool
    further: Further
    key_products: int = 2
    together: int = 1

    def beside(self, usual: "LayerSizes") -> OwnSizes | None:
        """Return what differs from the usual sizes; None for nothing."""
        names = {field.name for field in fields(OwnSizes)} - {"additions"}
        own = {name: getattr(self, name) for name in names if getattr(self, name) != getattr(usual, name)}
        if self.further.layer != usual.further.layer:
            own["additions"] = self.further.layer
        return OwnSizes(**own) if own else None


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
) -> SizesOfLayers:
    """Return the sizes of all layers.

    Raises:
        InputError: a missing or wrong size, a list that does not fit the number of layers.
    """
    base = _without_lists(config)
    usual = _sizes(base, family, states, layers=layers, has_experts=has_experts)
    changed = _changes(config, family, layers, windows)
    own = []
    for layer in range(layers):
        sizes = usual
        if changed[layer]:
            sizes = _sizes(_with(base, changed[layer]), family, states, layers=layers, has_experts=has_experts)
        if layer == 0 and family.first_norm_outside:
            sizes = replace(sizes, norms=replace(sizes.norms, of_layer=sizes.norms.of_layer - 1))
        if family.sinks_in_windows:
            sizes = replace(sizes, sinks=windows[layer])
        sizes = _with_keys(base, family, sizes, layer=layer, layers=layers, window=windows[layer])
        if kinds and kinds[layer] in _COMPRESSED:
            sizes = _compressed(base, sizes, kinds[layer])
        own.append(sizes.beside(usual))
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
    listed = config.value("per_layer_config")
    if isinstance(listed, dict):
        for key, values in listed.items():
            if not (isinstance(key, str) and key.isdecimal() and int(key) < layers and isinstance(values, dict)):
                rule = _("must have an object for some of the layers 0 to {last}", last=layers - 1)
                raise InputError(value=key, rule=rule, place=config.fields.place("per_layer_config"))
            changed[int(key)].update(values)
    return changed


def _without_lists(config: Configuration) -> Configuration:
    """Return a configuration with the most frequent number of a list for each layer in its place."""
    usual: dict[str, object] = {}
    for key, field in _LISTED.items():
        value = config.value(key)
        if is_integer_list(value) and value:
            usual[field] = Counter(value).most_common(1)[0][0]
    return _with(config, usual) if usual else config


def _with(config: Configuration, values: Mapping[str, object]) -> Configuration:
    fields_of_file = config.fields
    return Configuration(
        fields=Fields(values={**fields_of_file.values, **values}, file=fields_of_file.file, path=fields_of_file.path)
    )


def _sizes(
    config: Configuration, family: ModelTypeTraits, states: LayersWithState, *, layers: int, has_experts: bool
) -> LayerSizes:
    hidden = config.required("hidden")
    heads = _heads(config, states)
    latent = None if family.narrow_ends else _latent(config)
    head_dim = config.size("head_dim") if latent is None else None
    if states.mixer is not None and not states.attention_layers:
        head_dim = states.mixer.value_dim
    kv_heads = heads if latent is not None else _kv_heads(config, family, heads)
    width = head_dim or (hidden // heads if heads <= hidden else 1)
    if head_dim is None and (hidden % heads or family.rounded_head_dim):
        head_dim = width if family.rounded_head_dim else None
    elif head_dim is None:
        head_dim = hidden // heads
    value_dim = config.size("value_dim") or 0 if latent is None else latent.value_dim
    ffn = _ffn(config, family, states, layers=layers, has_experts=has_experts)
    widths = Widths(
        hidden=hidden, layers=layers, heads=heads, kv_heads=kv_heads, values=heads * (value_dim or width),
        head_dim=width, ffn=ffn or 0,
    )  # fmt: skip
    return LayerSizes(
        heads=heads, kv_heads=kv_heads, head_dim=head_dim, ffn=ffn, latent=latent,
        value_dim=value_dim if latent is None and value_dim != width else 0, sinks=family.sinks,
        norms=_norms(config, family, queries=heads * width, keys=kv_heads * width, width=width),
        further=further_parts(config, (*family.further, *head_gates(config, family)), widths),
    )  # fmt: skip


def head_gates(config: Configuration, family: ModelTypeTraits) -> tuple[str, ...]:
    """Return the further part that is a gate for every head, where the file asks for it."""
    asked = config.value(family.gate_key) if family.gate_key else None
    return ("head gate",) if asked is True or asked == "per-head" else ()


def output_gate(config: Configuration, family: ModelTypeTraits) -> bool:
    """Return whether a gate weighs every number of attention's output."""
    asked = config.value(family.gate_key) if family.gate_key else None
    return family.output_gate or (isinstance(asked, str) and asked != "per-head")


def narrow_ends(config: Configuration, family: ModelTypeTraits) -> NarrowEnds | None:
    """Return the narrow products at both ends of attention; None for a type without."""
    if not family.narrow_ends:
        return None
    return NarrowEnds(
        query_rank=config.required("query_rank"),
        out_rank=config.required("out_rank"),
        out_groups=config.required("out_groups"),
    )


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


def _kv_heads(config: Configuration, family: ModelTypeTraits, heads: int) -> int:
    if family.multi_query and not config.flag("new_decoder_architecture"):
        return 1 if config.flag("multi_query", default="multi_query" in family.on) else heads
    return config.size("kv_heads") or heads


def _latent(config: Configuration) -> LatentAttention | None:
    if config.size("key_value_rank") is None:
        return None
    return LatentAttention(
        query_rank=config.size("query_rank") or 0,
        key_value_rank=config.required("key_value_rank"),
        rotary_dim=config.required("rotary_dim"),
        plain_dim=config.required("plain_dim"),
        value_dim=config.required("value_dim"),
    )


def _ffn(
    config: Configuration, family: ModelTypeTraits, states: LayersWithState, *, layers: int, has_experts: bool
) -> int | None:
    """Return the width of the MLP; None where it follows from that of the experts."""
    hidden = config.required("hidden")
    ffn = config.size("dense_ffn") or config.size("ffn")
    if ffn is not None and family.ffn_of_both:
        ffn //= 2
    if family.shared_alone and not has_experts:
        ffn = config.required("shared_ffn")
    if family.adjusted_ffn and ffn is not None:
        ffn = _adjusted(config, ffn)
    if family.ffn_factor:
        ffn = _multiplied(config, hidden)
    if states.bare_layers and len(states.bare_layers) == layers:
        ffn = 0
    if ffn is None:
        times = family.ffn_times or (4 if config.value("expansion_ratio") is not None else 0)
        if times:
            ratio = config.value("expansion_ratio")
            ffn = hidden * (ratio if isinstance(ratio, int) and ratio >= 1 else times)
        elif not has_experts:
            ffn = config.required("ffn")
    return ffn


def _adjusted(config: Configuration, ffn: int) -> int:
    """Return the width of an MLP of LFM2: two thirds of the file's, times a factor, rounded up to a multiple."""
    if not config.flag("block_auto_adjust_ff_dim", default=True):
        return ffn
    width = 2 * ffn // 3
    factor = config.value("block_ffn_dim_multiplier")
    if factor is not None:
        width = int(config.fields.number("block_ffn_dim_multiplier", COEFFICIENT, above_zero=True) * width)
        multiple = config.step("block_multiple_of", 256)
        width = -(-width // multiple) * multiple
    return width


def _multiplied(config: Configuration, hidden: int) -> int:
    """Return the width of an MLP of xLSTM: the hidden size times a factor, rounded up to a multiple."""
    width = int(hidden * config.fields.number("ffn_proj_factor", COEFFICIENT, above_zero=True))
    multiple = config.step("ffn_round_up_to_multiple_of", 64)
    return -(-width // multiple) * multiple


def _heads(config: Configuration, states: LayersWithState) -> int:
    """Return the heads of attention; those of the state mixer in a model without any attention."""
    if states.mixer is not None and not states.attention_layers:
        return states.mixer.heads
    return config.required("heads")


def _norms(config: Configuration, family: ModelTypeTraits, *, queries: int, keys: int, width: int) -> Norms:
    of_layer = family.layer_norms
    if family.one_norm_flag and config.flag(family.one_norm_flag, default=family.one_norm_flag in family.on):
        norms_beside = config.value("num_ln_in_parallel_attn")
        is_new = config.flag("new_decoder_architecture")
        of_layer = 2 if is_new and norms_beside != 1 else 1
    if family.four_norms_flag and config.flag(family.four_norms_flag, default=family.four_norms_flag in family.on):
        of_layer = 4
    has_norms = bool(family.head_norms)
    if family.head_norms_flag:
        has_norms = config.flag(family.head_norms_flag, default=family.head_norms_flag in family.on)
    if not has_norms:
        queries = keys = 0
    elif family.head_norms in ("head", "keys"):
        queries = keys = width * (2 if family.head_norm_biases else 1)
    return Norms(
        of_layer=of_layer, queries=0 if family.head_norms == "keys" else queries, keys=keys, last=family.last_norm,
        after_embedding=family.norm_after_embedding, learned=family.learned_norms,
    )  # fmt: skip
