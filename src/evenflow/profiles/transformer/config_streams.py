"""Several residual streams, from a configuration: how they are mixed, and what goes along to all layers."""

import math
from dataclasses import replace

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.predict.layer_parts import Addition
from evenflow.profiles.transformer.config_further import Further, Widths
from evenflow.profiles.transformer.spellings import Configuration


def hyper_connections(config: Configuration, widths: Widths) -> Further:
    """Several residual streams, mixed before and behind attention and MLP. [arXiv:2409.19606; arXiv:2512.24880]"""
    return _streams(config, widths, mixed=config.required("streams") + 2, scales=3)


def plain_hyper_connections(config: Configuration, widths: Widths) -> Further:
    """Hyper-connections whose streams are not mixed with each other."""
    return _streams(config, widths, mixed=2, scales=2)


def averaged_hyper_connections(config: Configuration, widths: Widths) -> Further:
    """Hyper-connections whose streams are averaged in the end. [GLM-5.3-Flash]"""
    return replace(
        hyper_connections(config, widths),
        tail=(Addition(name="hyper-connections", numbers=(config.required("streams") + 1) * widths.hidden, moves=1),),
    )


def _streams(config: Configuration, widths: Widths, *, mixed: int, scales: int) -> Further:
    streams = config.required("streams")
    wide, rows = streams * widths.hidden, mixed * streams
    mixing = Addition(
        name="hyper-connections", products=((wide, rows),) * 2, numbers=(streams + 1) * widths.hidden, moves=6,
        small=2 * (rows + scales),
    )  # fmt: skip
    joined = Addition(name="hyper-connections", products=((wide, streams),), numbers=wide, small=streams + 1)
    return Further(layer=(mixing,), tail=(joined,), streams=streams)


def gated_hyper_connections(config: Configuration, widths: Widths) -> Further:
    """Streams with norms of their own, each weighed number by number through narrow products. [Qwen4-Exp]

    They stand in the place of a layer's norms.
    """
    streams, rank = config.required("streams"), config.required("stream_rank")
    wide = streams * widths.hidden
    weighing = ((wide, rank), (rank, wide))
    mixing = Addition(
        name="hyper-connections", products=(*weighing, (wide, streams)) * 2, numbers=3 * wide + widths.hidden, moves=6,
        small=2 * wide,
    )  # fmt: skip
    joined = Addition(name="hyper-connections", products=weighing, numbers=2 * wide, moves=4, small=wide)
    return Further(layer=(mixing,), tail=(joined,), streams=streams)


def layer_inputs(config: Configuration, widths: Widths) -> Further:
    """Every layer gets an embedding of its own, from one table and from the common one. [Gemma 3n, Gemma 4]"""
    narrow = config.size("layer_input") or 0
    if not narrow:
        return Further()
    words, width = config.required("layer_input_vocabulary"), widths.layers * narrow
    of_all = Addition(
        name="embedding", products=((widths.hidden, width),), numbers=2 * width, small=narrow, table=words * width,
        looked_up=width,
    )  # fmt: skip
    each = Addition(
        name="layer input", products=((widths.hidden, narrow), (narrow, widths.hidden)),
        numbers=narrow + 2 * widths.hidden, small=widths.hidden,
    )  # fmt: skip
    return Further(layer=(each,), head=(of_all,), carried=width)


def alternating_updates(config: Configuration, widths: Widths) -> Further:
    """Several streams of which one is computed and the others are predicted. [AltUp, arXiv:2301.13310]"""
    streams, hidden = config.required("streams"), widths.hidden
    others = ((hidden, hidden),) * (streams - 1)
    each = Addition(
        name="altup", products=((hidden, streams), (streams, streams * streams), (streams, streams)),
        numbers=(streams + 1) * hidden, moves=6, small=2 * hidden,
    )  # fmt: skip
    ends = Addition(name="altup", products=others, numbers=streams * hidden)
    return Further(layer=(each,), head=(ends,), tail=(ends,), streams=streams)


def reversible_parts(config: Configuration, widths: Widths) -> Further:
    """Two streams, from each of which layers compute what they add to the other; the output layer reads both.

    Positions are two tables, for rows and columns of the sequence, or one. [Reformer, arXiv:2001.04451, §3, §4]
    """
    positions = Further(positions=config.required("positions"))
    if config.flag("axial_pos_embds", default=True):
        shape, wide = config.integers("axial_pos_shape"), config.integers("axial_pos_embds_dim")
        if len(shape) != len(wide):
            rule = _("must have as many numbers as axial_pos_embds_dim ({count})", count=len(wide))
            raise InputError(value=shape, rule=rule, place=config.fields.place("axial_pos_shape"))
        learned = sum(rows * width for rows, width in zip(shape, wide, strict=True))
        table = Addition(name="embedding", numbers=widths.hidden, small=learned)
        positions = Further(head=(table,), fixed_sequence=math.prod(shape))
    # A second bias of the output layer is held, and never read.
    second_bias = Addition(name="output", table=config.required("vocabulary"))
    streams = Further(tail=(second_bias,), streams=2, reversible=True, output_width=2 * widths.hidden)
    return positions + streams
