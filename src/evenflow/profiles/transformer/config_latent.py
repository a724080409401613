"""Layers whose latent attention differs from that of the others: without positions, or with an earlier layer's keys."""

from collections.abc import Sequence
from dataclasses import replace

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.predict.transformer import LatentAttention
from evenflow.profiles.transformer.config_further import Further
from evenflow.profiles.transformer.config_layer import LayerSizes
from evenflow.profiles.transformer.config_layers import check_length
from evenflow.profiles.transformer.spellings import Configuration

_ROTARY, _SOURCES = "no_rope_layers", "kv_source_layers"
_EVERY = 4


def sizes_without_positions(config: Configuration, *, layers: int) -> dict[int, dict[str, object]]:
    """Return the fields of the layers that rotate nothing, where their heads are as wide as those of the others.

    Raises:
        InputError: a missing or wrong size, a list that does not fit the number of layers.
    """
    if config.size("key_value_rank") is None:
        return {}
    if config.value(_ROTARY) is not None:
        check_length(config, _ROTARY, layers)
        without = [layer for layer, rotates in enumerate(config.integers(_ROTARY)[:layers]) if not rotates]
    else:
        every = config.step("no_rope_layer_interval", _EVERY)
        without = list(range(every - 1, layers, every))
    width = config.required("plain_dim") + config.required("rotary_dim")
    return {layer: {"qk_rope_head_dim": 0, "qk_nope_head_dim": width} for layer in without}


def key_sources(config: Configuration, *, layers: int) -> tuple[int, ...]:
    """Return for each layer the one whose narrow keys and values it reads; empty where all read their own.

    Raises:
        InputError: a list that does not fit the number of layers, or names a layer that has none of its own.
    """
    if config.value(_SOURCES) is None:
        return ()
    check_length(config, _SOURCES, layers)
    sources = tuple(config.integers(_SOURCES)[:layers])
    for layer, source in enumerate(sources):
        if not 0 <= source <= layer or sources[source] != source:
            rule = _("must name for each layer itself, or an earlier layer that has its own")
            raise InputError(value=source, rule=rule, place=config.fields.place(_SOURCES))
    return sources if sources != tuple(range(layers)) else ()


def with_key_source(sizes: LayerSizes, sources: tuple[int, ...], latents: Sequence[LatentAttention]) -> LayerSizes:
    """Return the sizes of a layer that may read an earlier one's keys, and hands on those that later ones read.

    `latents` are the attention of all layers until this one.
    """
    layer = len(latents) - 1
    read_later = {source for source in sources[layer + 1 :] if source <= layer}
    numbers = sum(latents[source].key_value_rank + latents[source].rotary_dim for source in read_later)
    further = sizes.further + Further(handed_on=numbers)
    return replace(sizes, further=further, key_products=sizes.key_products if sources[layer] == layer else 0)
