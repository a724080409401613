"""The cut that DeepSpeed's `PipelineModule` makes by itself, by its partition method.

``uniform`` deals out all entries evenly; ``type:PATTERN`` those whose name has the pattern, and a rank begins with the
first of its own. Others need the parameters of every entry. [DeepSpeed, `PipelineModule._partition_layers`,
`partition_balanced`]
"""

import re
from collections.abc import Sequence
from itertools import accumulate, pairwise

from evenflow.language import _
from evenflow.targets.entry_lists.settings import even_counts

LAYER = "ParallelTransformerLayerPipe"
"""The class of a transformer layer in models that were made of Megatron-LM's."""


_PATTERN = re.compile(r"[\w|^$]+(?:\.\*[\w|^$]*){0,3}")
"""Patterns that are searched for."""


def ranks_by_method(names: Sequence[str], method: str, num_ranks: int) -> list[list[str]] | None:
    """Return the names of the entries of every rank; None where too few count for that, or the method is another.

    >>> ranks_by_method(["Embedding", "Layer", "Layer", "Layer", "Norm"], "type:layer", 2)
    [['Embedding', 'Layer', 'Layer'], ['Layer', 'Norm']]
    """
    counting = counting_entries(names, method)
    if counting is None or len(counting) < num_ranks:
        return None
    before = list(accumulate(even_counts(len(counting), num_ranks), initial=0))[1:-1]
    cuts = [0, *(counting[index] for index in before), len(names)]
    return [list(names[begin:end]) for begin, end in pairwise(cuts)]


def method_rule(num_ranks: int) -> str:
    """Return what a method must be whose cut over so many ranks is known, as the rule of an `InputError`."""
    return _(
        "must be uniform, or type: with a pattern that {ranks} entries have, such as {name}",
        ranks=num_ranks,
        name=LAYER,
    )


def counting_entries(names: Sequence[str], method: str) -> list[int] | None:
    """Return the places of the entries that a method deals out evenly; None for a method that is not known.

    A pattern is a regular expression in small letters, found anywhere in a name in any case. Of those with groups or
    many repetitions nothing is known: they could be searched for ever.
    """
    kind, _colon, rest = method.lower().partition(":")
    pattern = rest.partition(":")[0]
    if kind == "uniform":
        return list(range(len(names)))
    if kind != "type" or not _PATTERN.fullmatch(pattern):
        return None
    found = re.compile(pattern, re.IGNORECASE)
    return [index for index, name in enumerate(names) if found.search(name)]


def older_cut_notes(names: Sequence[str], method: str, num_ranks: int) -> list[str]:
    """Return a note where a DeepSpeed before 0.12.5 cuts otherwise: it fills one rank after the other."""
    counting = counting_entries(names, method) or []
    if method.lower() == "uniform" or len(counting) % num_ranks == 0:
        return []
    return [_("DeepSpeed before 0.12.5 cuts otherwise: it fills one rank after the other, and the last has the rest")]


def recomputed_layers(names: Sequence[str], interval: int) -> int:
    """Return how many layers of a rank recompute, in groups of `interval` entries: those with nothing but layers.

    [DeepSpeed, `PipelineModule._is_checkpointable`]
    """
    groups = [names[begin : begin + interval] for begin in range(0, len(names), interval)] if interval else []
    return sum(len(group) for group in groups if set(group) == {LAYER})
