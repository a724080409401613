"""Attention in chunks of neighbours or of tokens with the same hash, from a configuration. [Reformer]"""

from collections.abc import Iterator
from dataclasses import replace

from evenflow.errors import InputError
from evenflow.fields import is_integer
from evenflow.language import _
from evenflow.predict.layer_parts import Addition, ChunkedAttention
from evenflow.profiles.transformer.config_further import Further
from evenflow.profiles.transformer.config_layer import LayerSizes
from evenflow.profiles.transformer.spellings import Configuration

_HASHED, _LOCAL = "lsh", "local"
_KINDS = "attn_layers"
_BUCKETS = "num_buckets"


def with_chunked_layers(config: Configuration, chunked: bool) -> Configuration:
    """Return a configuration that counts the layers whose kinds it lists; raises InputError for a wrong list."""
    if not chunked:
        return config
    return config.changed({"num_hidden_layers": len(config.fields.texts(_KINDS))})


def chunks_of(config: Configuration, chunked: bool, *, layers: int) -> tuple[ChunkedAttention, ...]:
    """Return in which chunks every layer computes attention; none for a model without.

    Raises:
        InputError: a kind of layer that is not known, a missing or wrong size.
    """
    return tuple(_chunks(config, layers)) if chunked else ()


def _chunks(config: Configuration, layers: int) -> Iterator[ChunkedAttention]:
    for kind in config.texts(_KINDS)[:layers]:
        if kind not in (_HASHED, _LOCAL):
            rule = _("must be one of {names}", names=f"{_LOCAL}, {_HASHED}")
            raise InputError(value=kind, rule=rule, place=config.fields.place(_KINDS))
        if kind == _LOCAL:
            yield ChunkedAttention(length=config.required("local_chunk"), around=config.required("local_before"))
            continue
        yield ChunkedAttention(
            length=config.required("hash_chunk"), around=config.required("hash_before"),
            hashes=config.required("hashes"), buckets=_buckets(config), longest=config.required("positions"),
        )  # fmt: skip


def _buckets(config: Configuration) -> tuple[int, ...]:
    """Return the factors of the number of hashes; none where the file does not say it."""
    value = config.value(_BUCKETS)
    factors = value if isinstance(value, list) else [] if value is None else [value]
    if not all(is_integer(factor) and factor >= 2 and factor % 2 == 0 for factor in factors):
        rule = _("must be an even number, or a list of even factors")
        raise InputError(value=value, rule=rule, place=config.fields.place(_BUCKETS))
    return tuple(factors)


def chunked_layer(sizes: LayerSizes, chunked: ChunkedAttention) -> LayerSizes:
    """Return the sizes of a layer in chunks: where these are of hashes, keys are the queries, of one length.

    One product gives both, so that there are as many as where values are the keys.
    """
    if not chunked.hashes:
        return replace(sizes, chunked=chunked)
    keys = Addition(name="layernorm", numbers=sizes.heads * (sizes.head_dim or 1))
    return replace(sizes, chunked=chunked, key_products=1, further=sizes.further + Further(layer=(keys,)))
