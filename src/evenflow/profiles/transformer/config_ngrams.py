"""Embeddings of the last few tokens together (n-grams), which some layers of a configuration add to every stream.

A hash of the last two tokens, and of the last three, and so on, chooses a row in each of several tables: the heads.
Every table has another prime as its number of rows. [Qwen4-Exp]
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from math import isqrt

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.predict.layer_parts import Addition
from evenflow.profiles.transformer.spellings import Configuration
from evenflow.ranges import Range

_LAYERS = "ple_layer_ids"
_TOKENS = "ngram_size"
_HEADS = "heads_per_ngram"
_NGRAM_TOKENS = Range(least=2, most=8)
_NGRAM_HEADS = Range(least=1, most=64)
_SIEVED = Range(least=1_000, most=1_000_000)
"""Numbers that are sieved at once."""


def ngram_parts(config: Configuration, *, layers: int) -> dict[int, Addition]:
    """Return the embedding of n-grams of each body layer, counted from 0, that has one.

    Raises:
        InputError: a layer that is not there, a missing or wrong size.
    """
    if not config.value(_LAYERS):
        return {}
    chosen = sorted(set(config.integers(_LAYERS)))
    if chosen[0] < 1 or chosen[-1] > layers:
        rule = _("must be numbers of layers, from 1 to {layers}", layers=layers)
        raise InputError(value=chosen, rule=rule, place=config.fields.place(_LAYERS))
    hidden = config.required("hidden")
    width = config.size("ngram_width") or hidden
    heads = (_bounded(config, _TOKENS, 3, _NGRAM_TOKENS) - 1) * _bounded(config, _HEADS, 8, _NGRAM_HEADS)
    if width % heads:
        rule = _("must be a multiple of the {heads} heads of all n-grams", heads=heads)
        raise InputError(value=width, rule=rule, place=config.fields.place(config.spelling("ngram_width") or _LAYERS))
    wide, kernel = (config.size("streams") or 1) * hidden, config.size("ngram_kernel") or 4
    multiple = config.size("ngram_multiple") or 128
    primes = primes_from(config.size("ngram_rows") or 20_000_000)
    parts = {}
    for layer in chosen:
        rows = -(-sum(islice(primes, heads)) // multiple) * multiple
        parts[layer - 1] = Addition(
            name="n-grams", products=((width, wide), (width, hidden)), numbers=width + 4 * wide, moves=4,
            small=(3 + kernel) * wide, table=rows * (width // heads), looked_up=width,
        )  # fmt: skip
    return parts


def _bounded(config: Configuration, key: str, default: int, within: Range) -> int:
    value = config.step(key, default)
    within.check(value, place=config.fields.place(key))
    return value


def primes_from(first: int) -> Iterator[int]:
    """Yield the primes from `first` on.

    >>> list(islice(primes_from(20), 4))
    [23, 29, 31, 37]
    """
    low, span = max(2, first), int(_SIEVED.least)
    while True:
        yield from (low + place for place in _unmarked(low, span, _primes_below(isqrt(low + span) + 1)))
        low, span = low + span, min(2 * span, int(_SIEVED.most))


def _primes_below(end: int) -> list[int]:
    return [] if end <= 2 else [2 + place for place in _unmarked(2, end - 2, _primes_below(isqrt(end) + 1))]


def _unmarked(low: int, span: int, divisors: Iterable[int]) -> Iterator[int]:
    """Yield the places in a row of `span` numbers from `low` on that no other number among the divisors divides."""
    marks = bytearray(span)
    for divisor in divisors:
        start = max(divisor * divisor, -(-low // divisor) * divisor) - low
        marks[start::divisor] = b"\1" * len(range(start, span, divisor))
    return (place for place, mark in enumerate(marks) if not mark)
