"""Residuals that attend to what every block of layers before them gave, and not to the last sum alone.

A layer hands on what each block before it gave, beside the sum of its own block so far: messages grow from block to
block. [attention residuals of Kimi K3 and Inkling 2]
"""

from dataclasses import replace

from evenflow.predict.layer_parts import Addition, Place
from evenflow.profiles.transformer.config_further import Further
from evenflow.profiles.transformer.config_layer import LayerSizes
from evenflow.profiles.transformer.spellings import Configuration

_NAME = "attention residuals"


def residual_of_layer(hidden: int, *, layer: int, every: int, vectors: int) -> Further:
    """Return the residuals of a body layer, counted from 0, in blocks of `every` layers: of attention and of the MLP.

    The first layer's attention reads the embedding. Together they learn so many `vectors` of the hidden size.
    """
    before, after = -(-layer // every), layer // every + 1
    of_attention = before + 1 if layer else 0
    part = Addition(
        name=_NAME,
        numbers=2 * hidden * (of_attention + after + 1),  # of 32 bits
        small=hidden * vectors,
    )
    return Further(layer=(part,), handed_on=after * hidden)


def residual_of_tail(hidden: int, *, layers: int, every: int, vectors: int) -> Further:
    """Return the residual before the last norm, which learns so many `vectors` of the hidden size."""
    sources = -(-layers // every) + 1
    return Further(tail=(Addition(name=_NAME, numbers=2 * hidden * sources, small=hidden * vectors),))


def with_separate_inputs(config: Configuration, sizes: LayerSizes) -> LayerSizes:
    """Return the sizes of a layer whose queries, keys and values have a norm each.

    Its keys and values are convolved with weights of every token. [Inkling 2]
    """
    kernel = config.required("short_kernel")
    weights = ((config.required("hidden"), (sizes.kv_heads or sizes.heads) * kernel),) * 2
    convolved = Addition(name="convolution", place=Place.ATTENTION, products=weights)
    return replace(
        sizes,
        norms=replace(sizes.norms, of_layer=sizes.norms.of_layer + 2),
        further=sizes.further + Further(layer=(convolved,)),
    )
