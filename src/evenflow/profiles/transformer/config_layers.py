"""Which layers of a configuration have experts, and which a sliding window."""

from evenflow.errors import InputError
from evenflow.fields import is_integer
from evenflow.language import _
from evenflow.predict.transformer import Experts
from evenflow.profiles.transformer.config_states import ALONE, STATES, layer_kinds, layer_kinds_key
from evenflow.profiles.transformer.spellings import Configuration
from evenflow.profiles.transformer.traits import ModelTypeTraits
from evenflow.ranges import MODEL_SIZE

_WINDOWS = frozenset(
    (
        "sliding_attention",
        "chunked_attention",
        "local_attention",
        "local",
        "hybrid_sliding",
        "compressed_sparse_attention",
        "heavily_compressed_attention",
    )
)
_WHOLE = frozenset(
    ("full_attention", "attention", "global", "indexed_attention", "minimax_m3_sparse", "reference_sliding_attention")
)
_WITH_EXPERTS = frozenset(("sparse", "moe", "hash_moe"))


def experts_of(config: Configuration, family: ModelTypeTraits, *, layers: int) -> Experts | None:
    """Return the experts of a configuration; None for a model without any.

    Raises:
        InputError: a missing or wrong size, lists of layers that do not fit their number.
    """
    count = config.size("experts") or 0
    if family.experts_flag and not config.flag(family.experts_flag):
        count = 0
    chosen = _layers_with_experts(config, family, layers=layers) if count else []
    if not chosen:
        return None
    ffn, image_ffn = _expert_widths(config) if family.image_experts else (config.size("expert_ffn"), 0)
    if ffn is None:  # as wide as the one MLP that the file has
        ffn = config.required("ffn")
    shared = config.size("shared_ffn")
    if shared is None:
        shared = ffn * ((1 if family.shared_always else 0) or config.size("shared_experts") or 0)
    elif family.shared_each:
        shared *= config.size("shared_experts") or 1
    groups = config.size("expert_groups") or 1
    chosen_groups = config.size("chosen_groups") or groups
    if chosen_groups > groups:
        raise InputError(
            value=chosen_groups,
            rule=_("must be at most the groups of experts ({groups})", groups=groups),
            place=config.fields.place(config.spelling("chosen_groups") or ""),
        )
    return Experts(
        count=count,
        groups=groups,
        chosen_groups=chosen_groups,
        active=config.required("active"),
        ffn=ffn,
        shared_ffn=shared,
        dense_layers=chosen[0],
        mlp_layers=tuple(layer for layer in range(chosen[0], layers) if layer not in set(chosen)),
        shared_gate=family.shared_gate,
        width=config.size("experts_width") or 0,
        idle=config.size("idle_experts") or family.idle_experts,
        router_width=config.size("router_width") or 0,
        beside_mlp=family.experts_beside_mlp,
        image_ffn=image_ffn,
        shared_scores=(config.size("shared_experts") or 0) if family.shared_scores else 0,
    )


def _expert_widths(config: Configuration) -> tuple[int, int]:
    """Return the widths of an expert for text and of one for images; raises InputError for anything but a pair."""
    key = config.spelling("expert_ffn") or "moe_intermediate_size"
    first, second = config.fields.integers(key, MODEL_SIZE, length=2)
    return first, second


def _layers_with_experts(config: Configuration, family: ModelTypeTraits, *, layers: int) -> list[int]:
    """Return the layers that have experts, counted from 0."""
    if family.half_blocks:
        return [layer for layer, kind in enumerate(layer_kinds(config, family)[:layers]) if kind == "moe"]
    period, offset = config.step("expert_layer_period"), config.size("experts_offset")
    if offset is not None:
        alone = config.size("experts") == 1  # an MLP like the others
        return [layer for layer in range(layers) if layer % period == offset and not alone]
    kinds = config.texts("mlp_layer_types")
    if kinds:
        check_length(config, "mlp_layer_types", layers)
        return [layer for layer, kind in enumerate(kinds) if kind in _WITH_EXPERTS]
    if isinstance(config.value("moe_layers"), list):
        return sorted(set(config.integers("moe_layers")) & set(range(layers)))
    if config.value("moe_layers_enum") is not None:
        return sorted(set(_enumerated(config, "moe_layers_enum")) & set(range(layers)))
    every = config.value("moe_layer_freq")
    if isinstance(every, list):
        check_length(config, "moe_layer_freq", layers)
        return [layer for layer, has in enumerate(config.integers("moe_layer_freq")) if has]
    first = config.size("dense_layers") or 0
    last = layers - 1
    end = config.value("moe_layer_end_index")
    if is_integer(end) and end >= 0:
        last = min(last, end)
    chosen = [layer for layer in range(first, last + 1) if layer % config.step("moe_layer_freq") == 0]
    for key in ("decoder_sparse_step", "moe_layer_interval", "interleave_moe_layer_step"):
        chosen = [layer for layer in chosen if (layer + 1) % config.step(key) == 0]
    without = config.integers("mlp_only_layers") if config.value("mlp_only_layers") is not None else []
    return [layer for layer in chosen if layer not in set(without)]


def _enumerated(config: Configuration, key: str) -> list[int]:
    """Return integers that the file lists, or has in a text with commas; raises InputError for anything else."""
    value = config.value(key)
    if not isinstance(value, str):
        return config.integers(key)
    numbers = [number.strip() for number in value.split(",") if number.strip()]
    if not all(number.isdecimal() for number in numbers):
        rule = _("must be integers with commas between them")
        raise InputError(value=value, rule=rule, place=config.fields.place(key))
    return [int(number) for number in numbers]


def check_length(config: Configuration, key: str, layers: int) -> None:
    """Refuse a list with fewer entries than there are layers."""
    value = config.value(key)
    length = len(value) if isinstance(value, list) else 0
    if length < layers:
        rule = _("must have an entry for each of the {layers} layers", layers=layers)
        raise InputError(value=length, rule=rule, place=config.fields.place(key))


def window_of(config: Configuration, family: ModelTypeTraits, *, layers: int) -> tuple[int, tuple[int, ...]]:
    """Return the tokens of the sliding window, 0 without one, and the layers that see all tokens.

    Raises:
        InputError: a kind of layer that is not attention, or lists that do not fit the number of layers.
    """
    kinds = layer_kinds(config, family)
    all_seeing = _WHOLE if family.state else _WHOLE | {"hybrid"}
    known = _WINDOWS | all_seeing | (STATES | ALONE if family.state else frozenset())
    other = next((kind for kind in kinds if kind not in known), None)
    if other is not None:
        rule = _("must have attention in every layer, whole or within a window")
        if family.state:
            rule = _("must be one of {names}", names=", ".join(sorted(known)))
        raise InputError(value=other, rule=rule, place=config.fields.place(layer_kinds_key(config)))
    window = config.size("window") or 0
    if not window or not config.flag("use_sliding_window", default=config.value("max_window_layers") is None):
        return 0, ()
    if kinds:
        if len(kinds) < layers:
            check_length(config, layer_kinds_key(config), layers)
        whole = tuple(layer for layer in range(layers) if kinds[layer] in all_seeing)
    elif config.value("max_window_layers") is not None:
        whole = tuple(range(min(config.step("max_window_layers"), layers)))
    else:
        whole = _whole_layers(config, family, layers)
    return (window, whole) if len(whole) < layers else (0, ())


def _whole_layers(config: Configuration, family: ModelTypeTraits, layers: int) -> tuple[int, ...]:
    """Return the layers without the window where the file does not list them."""
    every = family.full_every
    if config.value("local_layer_ids") is not None:
        return tuple(sorted(set(range(layers)) - set(config.integers("local_layer_ids"))))
    for key in ("sliding_window_pattern", "_sliding_window_pattern"):
        value = config.value(key)
        if isinstance(value, str):
            return tuple(layer for layer in range(layers) if value[layer % len(value)] == "G") if value else ()
        if value is not None:
            every = config.step(key)
    last = layers if family.full_from_last else 0
    return tuple(layer for layer in range(layers) if (layer + 1 - last) % every == 0) if every else ()
