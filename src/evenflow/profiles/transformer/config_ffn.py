"""The width of the MLP in a configuration, which some types say by a rule."""

from evenflow.predict.transformer import LayersWithState
from evenflow.profiles.transformer.spellings import Configuration
from evenflow.profiles.transformer.traits import ModelTypeTraits
from evenflow.ranges import COEFFICIENT

_TIMES = ("expansion_ratio", "intermediate_multiple_size")
"""Fields that may say the width in hidden sizes."""


def ffn_of(
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
        ratio = next((config.value(key) for key in _TIMES if config.value(key) is not None), None)
        times = family.ffn_times or (4 if ratio is not None else 0)
        if times:
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
