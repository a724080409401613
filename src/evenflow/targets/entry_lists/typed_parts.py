"""The cut that DeepSpeed's `PipelineModule` makes by itself with ``partition_method="type:WORDS"``.

The entries whose name has one of the words are dealt out evenly, and a rank begins with the first of its own.
[DeepSpeed, `PipelineModule._partition_layers`, `partition_balanced`]
"""

import re
from collections.abc import Sequence
from itertools import accumulate, pairwise

from evenflow.targets.entry_lists.settings import even_counts

LAYER = "ParallelTransformerLayerPipe"
"""The class of a transformer layer in models that were made of Megatron-LM's."""


def words_of_method(method: str) -> tuple[str, ...] | None:
    """Return the words of a partition method in small letters; None for another method.

    >>> words_of_method("type:transformer|embedding")
    ('transformer', 'embedding')
    """
    match = re.fullmatch(r"type:(\w+(?:\|\w+)*)", method)
    return None if match is None else tuple(match[1].lower().split("|"))


def typed_ranks(names: Sequence[str], types: Sequence[str], num_ranks: int) -> list[list[str]]:
    """Return the names of the entries of every rank; at least as many must have a word as there are ranks."""
    counting = [index for index, name in enumerate(names) if any(word in name.lower() for word in types)]
    before = list(accumulate(even_counts(len(counting), num_ranks), initial=0))[1:-1]
    cuts = [0, *(counting[index] for index in before), len(names)]
    return [list(names[begin:end]) for begin, end in pairwise(cuts)]


def recomputed_layers(names: Sequence[str], interval: int) -> int:
    """Return how many layers of a rank recompute, in groups of `interval` entries: those with nothing but layers.

    [DeepSpeed, `PipelineModule._is_checkpointable`]
    """
    groups = [names[begin : begin + interval] for begin in range(0, len(names), interval)] if interval else []
    return sum(len(group) for group in groups if set(group) == {LAYER})
