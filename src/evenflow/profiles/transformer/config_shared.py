"""Blocks of attention and MLP whose weights several layers share, from a configuration. [Zamba, arXiv:2405.16712]

A block reads the output of the layer before it beside the embedding, so twice the hidden size. What it gives goes
through a product of the layer's own into the layer's state mixer.
"""

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.predict.layer_parts import Addition, Place
from evenflow.predict.transformer import Biases, SharedBlocks, Transformer
from evenflow.profiles.transformer.config_further import Further
from evenflow.profiles.transformer.spellings import Configuration
from evenflow.profiles.transformer.traits import ModelTypeTraits

ADAPTED, PLAIN = "adapted", "plain"
"""Whether every use of a block has narrow products of its own beside those of the block."""
_SHARES, _MIXES = "hybrid", "linear_attention"
_KINDS = "layers_block_type"
_ADAPTED_KINDS = (
    *(_MIXES,), *((_MIXES,) * 5 + (_SHARES,)) * 7, *(_MIXES,) * 4, _SHARES, *(_MIXES,) * 3, _SHARES, *(_MIXES,) * 2
)  # fmt: skip
"""The layers of Zamba2-2.7B, which a configuration means that lists none."""


def with_listed_layers(config: Configuration, family: ModelTypeTraits) -> Configuration:
    """Return a configuration that lists its layers and says how wide the heads of its shared blocks are.

    Raises:
        InputError: a missing or wrong size.
    """
    if not family.shared_blocks:
        return config
    kinds, width = config.texts(_KINDS) or config.texts("layer_types"), 2 * config.required("hidden")
    changed: dict[str, object] = {}
    if not kinds and family.shared_blocks == ADAPTED:
        kinds = _ADAPTED_KINDS
    if not kinds:
        every, offset = config.step("attn_layer_period", 6), config.size("attention_offset")
        rest = range(config.required("layers") - 3)
        chosen = {place for place in rest if place % every == (4 if offset is None else offset)}
        kinds = (_MIXES, _MIXES, _SHARES, *(_SHARES if place in chosen else _MIXES for place in rest))
    if family.shared_blocks == ADAPTED:  # whatever the file says of the convolution, it is so
        changed = {"use_conv_bias": True, "mamba_proj_bias": config.flag("add_bias_linear")}
    head_dim = config.value("head_dim") or config.value("attention_head_dim")
    changed["head_dim"] = head_dim or width // config.required("heads")
    return config.changed({**changed, _KINDS: list(kinds), "num_hidden_layers": len(kinds)})


def shared_blocks(
    config: Configuration, family: ModelTypeTraits, kinds: tuple[str, ...], *, hidden: int
) -> SharedBlocks | None:
    """Return the blocks that layers share; None for a model without.

    Raises:
        InputError: a missing or wrong size.
    """
    layers = tuple(layer for layer, kind in enumerate(kinds) if kind == _SHARES)
    if not family.shared_blocks or not layers:
        return None
    width, heads = 2 * hidden, config.required("heads")
    read = config.size("attention_width")
    if read not in (None, width):
        rule = _("must be twice the hidden size ({width}): attention reads the embedding too", width=width)
        raise InputError(value=read, rule=rule, place=config.fields.place("attention_hidden_size"))
    beside = Addition(name="layernorm", place=Place.ATTENTION, numbers=width, small=hidden)
    block = Transformer(
        hidden=hidden, layers=1, heads=heads, kv_heads=config.size("kv_heads") or heads,
        head_dim=config.size("head_dim") or width // heads, ffn=_ffn(config, hidden), vocabulary=1,
        gated=family.gated, biases=Biases(mlp=config.flag("add_bias_linear")), attention_width=width,
        additions=(beside,), positions=0 if config.flag("use_mem_rope") else 1, name="shared block",
    )  # fmt: skip
    return SharedBlocks(block=block, count=min(config.step("num_mem_blocks"), len(layers)), layers=layers)


def parts_beside_shared(config: Configuration, family: ModelTypeTraits, *, hidden: int) -> Further:
    """Return what a layer has of its own beside the block that it shares: a product behind it, narrow ones in it."""
    products: list[tuple[int, int]] = [(hidden, hidden)]
    if family.shared_blocks == ADAPTED:
        rank, width = config.required("shared_rank"), 2 * hidden
        if config.flag("use_shared_attention_adapter"):
            products += [(width, rank), (rank, width)] * 3
        products += [(hidden, rank), (rank, 2 * _ffn(config, hidden))]
    return Further(layer=(Addition(name="shared block", products=tuple(products)),))


def _ffn(config: Configuration, hidden: int) -> int:
    return config.size("ffn") or 4 * hidden
