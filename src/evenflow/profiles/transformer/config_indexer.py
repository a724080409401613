"""Which layers of a configuration see chosen tokens alone, and what chooses them."""

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.predict.layer_parts import Indexer
from evenflow.profiles.transformer.config_layer_sizes import compressed_tokens
from evenflow.profiles.transformer.config_layers import check_length
from evenflow.profiles.transformer.spellings import Configuration

_BLOCKS = "minimax_m3_sparse"
_COMPRESSED = "compressed_sparse_attention"
_PATTERN = "index_topk_pattern"
_LETTERS = {"F": "full", "S": "shared"}
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
    pool = config.size("index_pool")
    if pool is not None and config.value("indexer_compress_ratio") is not None:  # keys of a pool are averaged
        return Indexer(
            heads=heads, width=width, chosen=chosen + pool - 1, per_tokens=pool, weighed=False, from_hidden=True,
            small=2 * width,
        )  # fmt: skip
    if pool is not None:  # keys of a pool are weighed and summed, with a place in the pool for each
        tail = pool - 1 if config.flag("index_kpool_always_select_tail", default=True) else 0
        small = 2 * width + pool * width
        return Indexer(heads=heads, width=width, chosen=chosen + tail, keyed=2, per_tokens=pool, small=small)
    if config.value("compress_rates") is not None or config.value("compress_ratios") is not None:
        rate = compressed_tokens(config, _COMPRESSED)
        small = width + rate * 2 * width
        return Indexer(heads=heads, width=width, chosen=chosen, keyed=4, per_tokens=rate, small=small)
    return Indexer(heads=heads, width=width, chosen=chosen, small=2 * width)


def indexed_layers(
    config: Configuration, kinds: tuple[str, ...], *, layers: int, whole_is_indexed: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the layers in which attention sees chosen tokens, and those of them that choose.

    Raises:
        InputError: a list that does not fit the number of layers; no indexer where whole attention has one.
    """
    if config.size("index_width") is None and not whole_is_indexed:
        return (), ()
    chosen = _INDEXED | {"full_attention"} if whole_is_indexed else _INDEXED
    indexed = tuple(layer for layer in range(layers) if not kinds or kinds[layer] in chosen)
    if not indexed:
        return (), ()
    config.required("index_width")
    modes = _modes(config, layers)
    return indexed, tuple(layer for layer in indexed if modes[layer] != "shared")


def _modes(config: Configuration, layers: int) -> tuple[str, ...]:
    """Return for each layer whether it has the indexer, as the file lists it, or as its pattern or rule has it."""
    key = next((key for key in ("indexer_types", _PATTERN) if isinstance(config.value(key), list)), None)
    if key is not None:
        check_length(config, key, layers)
        return config.texts(key)
    pattern = config.value(_PATTERN)
    if pattern is not None:
        letters = config.fields.text(_PATTERN)
        if len(letters) < layers or not set(letters) <= set(_LETTERS):
            rule = _("must have a letter for each of the {layers} layers: F with the indexer, S without", layers=layers)
            raise InputError(value=pattern, rule=rule, place=config.fields.place(_PATTERN))
        return tuple(_LETTERS[letter] for letter in letters)
    every, offset = config.step("index_topk_freq"), config.size("index_offset")
    first = 2 if offset is None else offset
    return tuple("shared" if max(layer - first + 1, 0) % every else "full" for layer in range(layers))
