"""Whether a cut keeps to the rules that a network has for its stages."""

from collections.abc import Sequence

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model.network import Layer, Network
from evenflow.model.plan import Cells
from evenflow.model.stage_ranks import Stages, stage_cells
from evenflow.model.stage_rules import StageRule


def check_cut(network: Network, layers: Cells, table: Stages) -> None:
    """Raise InputError unless cells ``[chunk][rank]`` with so many `layers` keep to the rules of the network's layers.

    `table` has the stage of every cell.
    """
    if network.is_free:
        return
    num_chunks, num_ranks = table.shape
    end = 0
    for number, (chunk, rank) in enumerate(stage_cells(table), 1):
        count = layers[chunk][rank]
        end += count
        stage = network.layers[end - count : end]
        if stage and end > count and not stage[0].cut_before:
            rule = _("must be in the stage of the layer before it")
            raise _broken(network, end - count, rule, chunk=chunk, rank=rank)
        for place, layer in enumerate(stage, end - count):
            for broken in sorted(layer.stage_rules):
                fits = broken is not StageRule.ALONE or _is_one_block(stage)
                if not fits or not broken.allows(
                    chunk=chunk, rank=rank, num_chunks=num_chunks, num_ranks=num_ranks, is_last=number == table.size
                ):
                    raise _broken(network, place, broken.words, chunk=chunk, rank=rank)


def _is_one_block(stage: Sequence[Layer]) -> bool:
    return not any(layer.cut_before for layer in stage[1:])


def _broken(network: Network, layer: int, rule: str, *, chunk: int, rank: int) -> InputError:
    return InputError(
        value=_("chunk {chunk}, rank {rank}", chunk=chunk, rank=rank),
        rule=rule,
        place=_("{name}, layer {number} ({layer})", name=network.name, number=layer, layer=network.layers[layer].name),
        remedy=_("move the cut, or change the rule in the layer file"),
    )
