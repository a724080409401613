"""Which layers of a configuration have experts, and which a sliding window."""

from evenflow.errors import InputError
from evenflow.fields import is_integer
from evenflow.language import _
from evenflow.predict.transformer import Experts
from evenflow.profiles.transformer.families import ModelTypeTraits
from evenflow.profiles.transformer.spellings import Configuration

_WINDOWS = frozenset(("sliding_attention", "chunked_attention", "local_attention", "local"))
_WHOLE = frozenset(("full_attention", "attention", "global"))


def experts_of(config: Configuration, family: ModelTypeTraits, *, layers: int) -> Experts | None:
    """Return the experts of a configuration; None for a model without any.

    Raises:
        InputError: a missing or wrong size, lists of layers that do not fit their number.
    """
    count = config.size("experts") or 0
    chosen = _layers_with_experts(config, layers=layers) if count else []
    if not chosen:
        return None
    ffn = config.size("expert_ffn")
    if ffn is None:  # as wide as the one MLP that the file has
        ffn = config.required("ffn")
    shared = config.size("shared_ffn")
    if shared is None:
        shared = ffn * ((1 if family.shared_always else 0) or config.size("shared_experts") or 0)
    return Experts(
        count=count,
        active=config.required("active"),
        ffn=ffn,
        shared_ffn=shared,
        dense_layers=chosen[0],
        mlp_layers=tuple(layer for layer in range(chosen[0], layers) if layer not in set(chosen)),
        shared_gate=family.shared_gate,
    )


def _layers_with_experts(config: Configuration, *, layers: int) -> list[int]:
    """Return the layers that have experts, counted from 0."""
    kinds = config.texts("mlp_layer_types")
    if kinds:
        _check_length(config, "mlp_layer_types", layers)
        return [layer for layer, kind in enumerate(kinds) if kind == "sparse"]
    if isinstance(config.value("moe_layers"), list):
        return sorted(set(_numbers(config, "moe_layers")) & set(range(layers)))
    every = config.value("moe_layer_freq")
    if isinstance(every, list):
        _check_length(config, "moe_layer_freq", layers)
        return [layer for layer, has in enumerate(_numbers(config, "moe_layer_freq")) if has]
    first = config.size("dense_layers") or 0
    last = layers - 1
    end = config.value("moe_layer_end_index")
    if is_integer(end) and end >= 0:
        last = min(last, end)
    chosen = [layer for layer in range(first, last + 1) if layer % _step(config, "moe_layer_freq") == 0]
    for key in ("decoder_sparse_step", "moe_layer_interval", "interleave_moe_layer_step"):
        chosen = [layer for layer in chosen if (layer + 1) % _step(config, key) == 0]
    without = _numbers(config, "mlp_only_layers") if config.value("mlp_only_layers") is not None else []
    return [layer for layer in chosen if layer not in set(without)]


def _step(config: Configuration, key: str) -> int:
    """Return every how many layers one has experts; 1 where the file does not say it."""
    value = config.value(key)
    if value is None:
        return 1
    if not is_integer(value) or value < 1:
        raise InputError(value=value, rule=_("must be an integer of at least 1"), place=config.fields.place(key))
    return value


def _numbers(config: Configuration, key: str) -> list[int]:
    value = config.value(key)
    if not isinstance(value, list) or not all(map(is_integer, value)):
        raise InputError(value=value, rule=_("must be a list of integers"), place=config.fields.place(key))
    return value


def _check_length(config: Configuration, key: str, layers: int) -> None:
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
    key = "layer_types" if config.value("attention_layers") is None else "attention_layers"
    kinds = config.texts(key)
    other = next((kind for kind in kinds if kind not in _WINDOWS | _WHOLE), None)
    if other is not None:
        raise InputError(
            value=other,
            rule=_("must have attention in every layer, whole or within a window"),
            place=config.fields.place(key),
        )
    window = config.size("window") or 0
    if not window or not config.flag("use_sliding_window", default=config.value("max_window_layers") is None):
        return 0, ()
    if kinds:
        _check_length(config, key, layers)
        whole = tuple(layer for layer in range(layers) if kinds[layer] in _WHOLE)
    elif config.value("max_window_layers") is not None:
        whole = tuple(range(min(_step(config, "max_window_layers"), layers)))
    else:
        whole = _whole_layers(config, family, layers)
    return (window, whole) if len(whole) < layers else (0, ())


def _whole_layers(config: Configuration, family: ModelTypeTraits, layers: int) -> tuple[int, ...]:
    """Return the layers without the window where the file does not list them."""
    every = family.full_every
    for key in ("sliding_window_pattern", "_sliding_window_pattern"):
        value = config.value(key)
        if isinstance(value, str):
            return tuple(layer for layer in range(layers) if value[layer % len(value)] == "G") if value else ()
        if value is not None:
            every = _step(config, key)
    return tuple(layer for layer in range(layers) if (layer + 1) % every == 0) if every else ()
