"""Which layers of a configuration carry a state in the place of attention, and what such a layer consists of."""

from collections.abc import Callable, Mapping

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.predict.transformer import LayersWithState, StateMixer
from evenflow.profiles.transformer.families import ModelTypeTraits
from evenflow.profiles.transformer.spellings import Configuration
from evenflow.ranges import COEFFICIENT

STATES = frozenset(("linear_attention", "mamba", "conv", "hybrid", "recurrent"))
"""Kinds of layers that carry a state."""
ALONE = frozenset(("mlp", "moe"))
"""Kinds of layers without any mixer."""
_PATTERN = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
_BY_RATIO = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}
_TOKENS_AT_ONCE = 64
"""Tokens of a chunk where the file does not say it: those of the kernels of flash-linear-attention."""


def layer_kinds(config: Configuration, family: ModelTypeTraits) -> tuple[str, ...]:
    """Return the kind of every layer as the file lists them, in a list or as a pattern of letters; empty without.

    Raises:
        InputError: a letter of a pattern that is none of its kinds.
    """
    key = layer_kinds_key(config)
    pattern = config.value(key)
    if key == "compress_ratios":
        return _by_ratio(config)
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
    return next((key for key in (*keys, "block_types") if config.value(key) is not None), "layer_types")


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
    state = _MIXERS[family.state](config, family, hidden) if with_state else None
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


def _mamba(config: Configuration, family: ModelTypeTraits, hidden: int) -> StateMixer:
    """Return the first Mamba: a state for every channel, carried from token to token. [arXiv:2312.00752, §3]"""
    inner = config.required("state_expand") * hidden
    rows = config.required("state_size")
    rank = config.size("step_rank") or -(-hidden // 16)
    biases = inner if config.first_flag(_CONVOLUTION_BIASES, default=True) else 0
    biases += 2 * inner + hidden if config.first_flag(_PROJECTION_BIASES) else 0
    norms = rank + 2 * rows if family.state_norms else 0
    return StateMixer(
        name="mamba", heads=inner, key_dim=rows, value_dim=1, into=2 * inner, out=inner,
        between=((inner, rank + 2 * rows), (rank, inner)), channels=inner, kernel=config.required("state_kernel"),
        small=inner * (rows + 2) + norms + biases, chunk=1,
    )  # fmt: skip


def _mamba2(config: Configuration, family: ModelTypeTraits, hidden: int) -> StateMixer:
    """Return Mamba-2: a state for every head, with keys and queries of groups of heads. [arXiv:2405.21060, §7]"""
    heads, rows = config.required("state_heads"), config.required("state_size")
    inner = config.size("state_inner")
    if inner is None:
        width = config.size("state_head_dim")
        inner = heads * width if width is not None else config.required("state_expand") * hidden
    channels = inner + 2 * config.required("state_groups") * rows
    into = inner + channels + heads
    biases = channels if config.first_flag(_CONVOLUTION_BIASES, default=True) else 0
    if config.first_flag(_PROJECTION_BIASES):
        biases += into
    if config.first_flag(("projectors_bias", *_PROJECTION_BIASES)):
        biases += hidden
    has_norm = config.flag("mamba_rms_norm", default=family.state_norms)
    return StateMixer(
        name="mamba-2", heads=heads, key_dim=rows, value_dim=inner // heads, into=into, out=inner, channels=channels,
        kernel=config.required("state_kernel"), small=3 * heads + (inner if has_norm else 0) + biases,
        chunk=config.size("state_chunk") or _TOKENS_AT_ONCE,
    )  # fmt: skip


def _delta(config: Configuration, _family: ModelTypeTraits, _hidden: int) -> StateMixer:
    """Return the gated delta net of Qwen3-Next. [arXiv:2412.06464]"""
    heads, key_dim, value_dim = (config.required(name) for name in ("value_heads", "key_width", "value_width"))
    keys, values = config.required("key_heads") * key_dim, heads * value_dim
    channels = 2 * keys + values
    return StateMixer(
        name="gated-delta-net", heads=heads, key_dim=key_dim, value_dim=value_dim, into=channels + values + 2 * heads,
        out=values, channels=channels, kernel=config.required("state_kernel"), small=2 * heads + value_dim,
        chunk=_TOKENS_AT_ONCE, delta=True,
    )  # fmt: skip


def _kimi_delta(config: Configuration, _family: ModelTypeTraits, hidden: int) -> StateMixer:
    """Return Kimi's delta attention: a gate for every number of a key, from narrow products. [arXiv:2510.26692]"""
    heads, width = config.required("linear_heads"), config.required("linear_width")
    inner = heads * width
    return StateMixer(
        name="kimi-delta-attention", heads=heads, key_dim=width, value_dim=width, into=3 * inner + heads, out=inner,
        between=((hidden, width), (width, inner)) * 2, channels=3 * inner, kernel=config.required("state_kernel"),
        small=inner + heads + width, chunk=_TOKENS_AT_ONCE, delta=True,
    )  # fmt: skip


def _kimi_delta_wide(config: Configuration, _family: ModelTypeTraits, _hidden: int) -> StateMixer:
    """Return Kimi's delta attention with gates that are projected at once."""
    heads, width = config.required("linear_heads"), config.required("linear_width")
    inner = heads * width
    return StateMixer(
        name="kimi-delta-attention", heads=heads, key_dim=width, value_dim=width, into=5 * inner + heads, out=inner,
        channels=3 * inner, kernel=config.required("state_kernel"), small=inner + heads + width,
        chunk=_TOKENS_AT_ONCE, delta=True,
    )  # fmt: skip


def _recurrence(config: Configuration, _family: ModelTypeTraits, hidden: int) -> StateMixer:
    """Return the gated linear recurrence of Griffin: a number for every channel. [arXiv:2402.19427, §2.4]"""
    inner = config.size("recurrent_width") or hidden
    gates = ((inner, inner // config.required("heads")),) * 2
    return StateMixer(
        name="gated-linear-recurrence", heads=inner, key_dim=1, value_dim=1, into=2 * inner, out=inner, between=gates,
        channels=inner, kernel=config.required("recurrent_kernel"), small=6 * inner + hidden, chunk=1,
    )  # fmt: skip


def _rwkv(config: Configuration, _family: ModelTypeTraits, hidden: int) -> StateMixer:
    """Return the time mixing of RWKV-4: two sums for every channel, which decay. [arXiv:2305.13048, §3]"""
    inner = config.size("attention_width") or hidden
    return StateMixer(
        name="rwkv", heads=inner, key_dim=2, value_dim=1, into=3 * inner, out=inner, small=2 * inner + 3 * hidden,
        chunk=1,
    )  # fmt: skip


def _matrix_lstm(config: Configuration, _family: ModelTypeTraits, hidden: int) -> StateMixer:
    """Return the LSTM of xLSTM whose memory is a matrix for every head. [arXiv:2503.13427, §2]"""
    heads = config.required("heads")
    keys, values = (
        _rounded(hidden * config.fields.number(key, COEFFICIENT, above_zero=True), 64)
        for key in ("qk_dim_factor", "v_dim_factor")
    )
    biases = 2 * keys + 2 * values + hidden if config.flag("use_bias") else 0
    return StateMixer(
        name="matrix-lstm", heads=heads, key_dim=keys // heads, value_dim=values // heads,
        into=2 * keys + 2 * values + 2 * heads, out=values, small=2 * heads + values + biases,
        chunk=config.size("state_chunk") or _TOKENS_AT_ONCE,
    )  # fmt: skip


def _rounded(width: float, multiple: int) -> int:
    return -(-int(width) // multiple) * multiple


def _convolution(config: Configuration, _family: ModelTypeTraits, hidden: int) -> StateMixer:
    """Return the short convolution of LFM2: two gates around it, no state. [arXiv:2511.23404]"""
    return StateMixer(
        name="short-convolution", heads=hidden, key_dim=0, value_dim=0, into=3 * hidden, out=hidden, channels=hidden,
        kernel=config.required("state_kernel"), small=5 * hidden if config.flag("conv_bias") else 0,
    )  # fmt: skip


def _lightning(config: Configuration, _family: ModelTypeTraits, hidden: int) -> StateMixer:
    """Return lightning attention: a state that decays by a fixed factor for each head. [arXiv:2401.04658]"""
    heads = config.required("heads")
    width = config.size("head_dim") or hidden // heads
    inner = heads * width
    return StateMixer(
        name="lightning-attention", heads=heads, key_dim=width, value_dim=width, into=4 * inner, out=inner,
        small=inner, chunk=config.size("state_chunk") or _TOKENS_AT_ONCE,
    )  # fmt: skip


_CONVOLUTION_BIASES = ("use_conv_bias", "mamba_conv_bias")
_PROJECTION_BIASES = ("mamba_proj_bias", "use_bias")
_MIXERS: Mapping[str, Callable[[Configuration, ModelTypeTraits, int], StateMixer]] = {
    "mamba": _mamba,
    "mamba-2": _mamba2,
    "gated-delta-net": _delta,
    "kimi-delta-attention": _kimi_delta,
    "kimi-delta-attention, wide gates": _kimi_delta_wide,
    "gated-linear-recurrence": _recurrence,
    "rwkv": _rwkv,
    "matrix-lstm": _matrix_lstm,
    "short-convolution": _convolution,
    "lightning-attention": _lightning,
}
