"""Which layers of a configuration see chosen tokens alone, and what chooses them."""

from evenflow.predict.layer_parts import Indexer
from evenflow.profiles.transformer.config_layer_sizes import compressed_tokens
from evenflow.profiles.transformer.config_layers import check_length
from evenflow.profiles.transformer.spellings import Configuration

_BLOCKS = "minimax_m3_sparse"
_COMPRESSED = "compressed_sparse_attention"
_INDEXED = frozenset(("indexed_attention", "deepseek_sparse_attention", _BLOCKS, _COMPRESSED))


def indexer_of(config: Configuration) -> Indexer | None:
    """Return what chooses tokens; None for a model whose attention sees all of them.

    Raises:
        InputError: a missing or wrong size.
    """
    if config.size("index_width") is None:
        return None
    heads, width = config.required("index_heads"), config.required("index_width")
    if config.size("index_block") is not None:  # blocks of keys, chosen for each group of heads
        chosen = config.required("index_block") * config.required("index_blocks")
        return Indexer(heads=heads, width=width, chosen=chosen, weighed=False, from_hidden=True, small=2 * width)
    chosen = config.required("index_chosen")
    if config.value("compress_rates") is not None or config.value("compress_ratios") is not None:
        rate = compressed_tokens(config, _COMPRESSED)
        small = width + rate * 2 * width
        return Indexer(heads=heads, width=width, chosen=chosen, keyed=4, per_tokens=rate, small=small)
    return Indexer(heads=heads, width=width, chosen=chosen, small=2 * width)


def indexed_layers(
    config: Configuration, kinds: tuple[str, ...], *, layers: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the layers in which attention sees chosen tokens, and those of them that choose.

    Raises:
        InputError: a list that does not fit the number of layers.
    """
    if config.size("index_width") is None:
        return (), ()
    indexed = tuple(layer for layer in range(layers) if not kinds or kinds[layer] in _INDEXED)
    modes = config.texts("indexer_types")
    if modes:
        check_length(config, "indexer_types", layers)
    return indexed, tuple(layer for layer in indexed if not modes or modes[layer] != "shared")
