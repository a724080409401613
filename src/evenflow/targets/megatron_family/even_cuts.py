"""The cuts that Megatron-LM makes without a layout: equal, but for the first and the last rank."""

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model.plan import Cells, cells
from evenflow.ranges import CHUNKS, LAYERS
from evenflow.targets.megatron_family.arguments import Arguments

FIRST, LAST = "decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers"
EMBEDDING, LOSS = "account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"
STAGE_LAYERS, STAGES = "num_layers_per_virtual_pipeline_stage", "num_virtual_stages_per_pipeline_rank"
CHUNK_COUNT = "virtual_pipeline_model_parallel_size"


def even_cut(arguments: Arguments, *, num_layers: int, num_ranks: int) -> Cells:
    """Return the layers ``[chunk][rank]`` that Megatron-LM deals out by itself.

    Ranks have equally many layers, but for a given number of the first and the last; embedding and loss may count as
    a layer each. Every rank deals its layers out to its chunks evenly. [Megatron-LM, `get_num_layers_to_build`]

    Raises:
        InputError: the numbers do not add up or divide, which Megatron-LM refuses as well.
    """
    ends = (arguments.switch(EMBEDDING), arguments.switch(LOSS))
    first, last = arguments.integer(FIRST, LAYERS), arguments.integer(LAST, LAYERS)
    if (first or last) and any(ends):
        key = FIRST if first else LAST
        raise arguments.error(key, _("must not be given where embedding or loss count as a layer"))
    by_rank = _by_rank(arguments, num_layers + sum(ends), num_ranks, first, last)
    num_chunks = _num_chunks(arguments, by_rank)
    if any(count % num_chunks for count in by_rank):
        raise InputError(
            value=by_rank,
            rule=_("must be multiples of the {chunks} chunks of a rank", chunks=num_chunks),
            place=_("{place}, layers of the ranks", place=arguments.file),
        )
    table = [[count // num_chunks for count in by_rank] for _chunk in range(num_chunks)]
    table[0][0] -= ends[0]
    table[-1][-1] -= ends[1]
    if min(table[0][0], table[-1][-1]) < 0:
        raise arguments.error(EMBEDDING if table[0][0] < 0 else LOSS, _("must leave every cell a layer to count"))
    return cells(table)


def _by_rank(arguments: Arguments, total: int, num_ranks: int, first: int | None, last: int | None) -> list[int]:
    """Return the layers of every rank; `total` has embedding and loss where they count."""
    if num_ranks == 1 and (first or last):
        raise arguments.error(FIRST if first else LAST, _("must not be given for one rank"))
    between = num_ranks - (first is not None) - (last is not None)
    rest = total - (first or 0) - (last or 0)
    if rest < 0 or bool(rest) != bool(between) or (between and rest % between):
        raise InputError(
            value=total,
            rule=_("must leave equally many layers to {count} ranks", count=between),
            place=arguments.place("num_layers"),
        )
    middle = [rest // between] * between if between else []
    return [*([first] if first is not None else []), *middle, *([last] if last is not None else [])]


def _num_chunks(arguments: Arguments, by_rank: list[int]) -> int:
    """Return the number of chunks of each rank."""
    chunks = arguments.integer(STAGES, CHUNKS)
    each = arguments.integer(STAGE_LAYERS, LAYERS)
    whole = arguments.integer(CHUNK_COUNT, CHUNKS)
    if each is not None and chunks is None:
        if len(set(by_rank)) > 1 or by_rank[0] % each:
            rule = _("must divide the layers of every rank, which are equally many")
            raise arguments.error(STAGE_LAYERS, rule)
        chunks = by_rank[0] // each
    if chunks is not None and whole is not None and whole != chunks:
        raise arguments.error(CHUNK_COUNT, _("must be {chunks}, as the other arguments say", chunks=chunks))
    return chunks or whole or 1
