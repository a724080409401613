"""Layers whose attention sees the tokens of images beside the sequence, from a configuration."""

from dataclasses import replace

from evenflow.fields import Fields, as_fields
from evenflow.predict.layer_parts import Addition, ImageAttention
from evenflow.profiles.transformer.config_further import Further
from evenflow.profiles.transformer.config_layer import LayerSizes
from evenflow.profiles.transformer.spellings import Configuration

AMONG, BETWEEN = "among", "between"
"""Whether they are among the layers that the file counts, or between these."""
_EVERY = "cross_layer_interval"


def with_image_layers(config: Configuration, sees_images: str) -> Configuration:
    """Return a configuration that counts and lists the layers that see images among the others.

    Raises:
        InputError: a missing or wrong size.
    """
    if sees_images != BETWEEN:
        return config
    layers, every = config.required("layers"), config.step(_EVERY)
    listed = [number * (every + 1) for number in range(layers // every)]  # each before `every` others
    return config.changed({"num_hidden_layers": layers + len(listed), "cross_attention_layers": listed})


def image_attention(config: Configuration, sees_images: str, *, layers: int, hidden: int) -> ImageAttention | None:
    """Return the layers that see images; None for a model without.

    Raises:
        InputError: a missing or wrong size.
    """
    if not sees_images:
        return None
    chosen = tuple(sorted({layer for layer in config.integers("cross_attention_layers") if 0 <= layer < layers}))
    return ImageAttention(layers=chosen, width=_width(config, hidden)) if chosen else None


def image_layer(config: Configuration, sizes: LayerSizes, *, hidden: int) -> LayerSizes:
    """Return the sizes of a layer that sees images: norms of its queries and keys, and gates of what it adds."""
    width = (sizes.head_dim or 1) if config.flag("qk_layer_norms", default=True) else 0
    gates = 2 * hidden if config.value("alpha_type") == "vector" else 2
    return replace(
        sizes,
        norms=replace(sizes.norms, queries=width, keys=width),
        further=sizes.further + Further(layer=(Addition(name="residual", numbers=2 * hidden, small=gates),)),
    )


def _width(config: Configuration, hidden: int) -> int:
    """Return the numbers of a token of an image: of what an encoder gives without a projector, or the hidden size."""
    part: Fields | None = None
    if isinstance(config.value("vision_config"), dict) and config.value(_EVERY) is not None:
        part = as_fields(config.value("vision_config"), file=config.fields.file, path="vision_config")
    width = part.values.get("embed_dim") if part is not None else None
    return width if isinstance(width, int) else hidden
