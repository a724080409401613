"""Which layers of a configuration carry a state in the place of attention."""

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.predict.transformer import LayersWithState
from evenflow.profiles.transformer.config_mixers import mixer_of
from evenflow.profiles.transformer.spellings import Configuration
from evenflow.profiles.transformer.traits import ModelTypeTraits

STATES = frozenset(("linear_attention", "mamba", "conv", "hybrid", "recurrent"))
"""Kinds of layers that carry a state."""
ALONE = frozenset(("mlp", "moe"))
"""Kinds of layers without any mixer."""
_PATTERN = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
_SPARSE = "sparse_attention_config.sparse_attention_freq"
_BY_RATIO = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}


def layer_kinds(config: Configuration, family: ModelTypeTraits) -> tuple[str, ...]:
    """Return the kind of every layer as the file lists them, in a list or as a pattern of letters; empty without.

    Raises:
        InputError: a letter of a pattern that is none of its kinds.
    """
    key = layer_kinds_key(config)
    pattern = config.value(key)
    if key == "compress_ratios":
        return _by_ratio(config)
    if key == _SPARSE:
        return tuple("minimax_m3_sparse" if is_sparse else "full_attention" for is_sparse in config.integers(key))
    if key == "block_types":  # a row that is repeated
        row = config.texts(key)
        return tuple(row[layer % len(row)] for layer in range(config.required("layers"))) if row else ()
    if isinstance(pattern, str) and family.half_blocks:
        wrong = next((letter for letter in pattern if letter not in _PATTERN), None)
        if wrong is not None:
            rule = _("must be of the letters {letters}", letters=", ".join(_PATTERN))
            raise InputError(value=wrong, rule=rule, place=config.fields.place(key))
        return tuple(_PATTERN[letter] for letter in pattern)
    return config.texts(key)


def layer_kinds_key(config: Configuration) -> str:
    """Return the field that lists the kinds of layers: the first that has a value."""
    keys = ("hybrid_override_pattern", "layers_block_type", "attention_layers", "layer_types", "compress_ratios")
    return next((key for key in (*keys, _SPARSE, "block_types") if config.value(key) is not None), "layer_types")


def _by_ratio(config: Configuration) -> tuple[str, ...]:
    """Return the kinds of layers that see earlier tokens made one of several, by how many that are."""
    ratios = config.integers("compress_ratios")
    wrong = next((ratio for ratio in ratios if ratio not in _BY_RATIO), None)
    if wrong is not None:
        rule = _("must be one of {names}", names=", ".join(map(str, _BY_RATIO)))
        raise InputError(value=wrong, rule=rule, place=config.fields.place("compress_ratios"))
    return tuple(_BY_RATIO[ratio] for ratio in ratios)


def states_of(config: Configuration, family: ModelTypeTraits, *, hidden: int, layers: int) -> LayersWithState:
    """Return the layers of a configuration that carry a state; none for a model with attention everywhere.

    Raises:
        InputError: a missing or wrong size.
    """
    if not family.state:
        return LayersWithState()
    kinds = layer_kinds(config, family) or _unlisted(config, family, layers)
    with_state = tuple(layer for layer, kind in enumerate(kinds[:layers]) if kind in STATES)
    bare = tuple(layer for layer, kind in enumerate(kinds[:layers]) if kind not in ALONE)
    attention = tuple(layer for layer, kind in enumerate(kinds[:layers]) if kind not in STATES | ALONE)
    if family.state_beside_attention:
        attention = with_state = tuple(range(layers))
    state = mixer_of(config, family, hidden=hidden) if with_state else None
    return LayersWithState(
        mixer=state,
        layers=with_state,
        attention_layers=attention,
        bare_layers=bare if family.half_blocks else (),
    )


def _unlisted(config: Configuration, family: ModelTypeTraits, layers: int) -> tuple[str, ...]:
    """Return the kinds of layers that the file gives by a rule, or leaves to its type."""
    chosen: set[int] = set()
    for key, first in (("attn_layer_indices", 0), ("full_attn_idxs", 0), ("linear_attn_config.full_attn_layers", 1)):
        listed = config.value(key)
        if listed is not None:
            chosen = {layer - first for layer in config.integers(key)}
            break
    else:
        every = config.step("full_attention_interval", config.step("attn_layer_period", family.full_every))
        offset = config.size("attention_offset")
        offset = every - 1 if offset is None else offset
        chosen = {layer for layer in range(layers) if every and layer % every == offset}
    return tuple("attention" if layer in chosen else "linear_attention" for layer in range(layers))
