"""What layers that carry a state have in the place of attention, from a configuration."""

from collections.abc import Callable, Mapping

from evenflow.predict.layer_parts import StateMixer
from evenflow.profiles.transformer.spellings import Configuration
from evenflow.profiles.transformer.traits import ModelTypeTraits
from evenflow.ranges import COEFFICIENT

_CONVOLUTION_BIASES = ("use_conv_bias", "mamba_conv_bias")
_PROJECTION_BIASES = ("mamba_proj_bias", "use_bias")
_TOKENS_AT_ONCE = 64
"""Tokens of a chunk where the file does not say it: those of the kernels of flash-linear-attention."""


def mixer_of(config: Configuration, family: ModelTypeTraits, *, hidden: int) -> StateMixer:
    """Return what the layers with a state have in a model of this type.

    Raises:
        InputError: a missing or wrong size.
    """
    return _MIXERS[family.state](config, family, hidden)


def _mamba(config: Configuration, family: ModelTypeTraits, hidden: int) -> StateMixer:
    """Return the first Mamba: a state for every channel, carried from token to token. [arXiv:2312.00752, §3]"""
    inner = config.required("state_expand") * hidden
    rows = config.required("state_size")
    rank = config.size("step_rank") or -(-hidden // 16)
    biases = inner if config.first_flag(_CONVOLUTION_BIASES, default=True) else 0
    biases += 2 * inner + hidden if config.first_flag(_PROJECTION_BIASES) else 0
    norms = rank + 2 * rows if family.state_norms else 0
    parts = config.step("n_mamba_heads") if family.shared_blocks else 1  # each projects to steps by itself
    return StateMixer(
        name="mamba", heads=inner, key_dim=rows, value_dim=1, into=2 * inner, out=inner,
        between=((inner // parts, rank + 2 * rows), (rank, inner // parts)) * parts, channels=inner,
        kernel=config.required("state_kernel"), small=inner * (rows + 2) + norms + biases, chunk=1,
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
    """Return Kimi's delta attention: a gate for every number of a key, from narrow products. [arXiv:2510.26692]

    The gate of its output is as narrow, or one product. [Kimi K3]
    """
    heads, width = config.required("linear_heads"), config.required("linear_width")
    inner = heads * width
    is_full = config.value("linear_attn_config.use_full_rank_gate") is True
    return StateMixer(
        name="kimi-delta-attention", heads=heads, key_dim=width, value_dim=width,
        into=(4 if is_full else 3) * inner + heads, out=inner,
        between=((hidden, width), (width, inner)) * (1 if is_full else 2), channels=3 * inner,
        kernel=config.required("state_kernel"), small=inner + heads + width, chunk=_TOKENS_AT_ONCE, delta=True,
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
