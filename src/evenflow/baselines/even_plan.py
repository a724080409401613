"""Even plans: layers dealt evenly, all under one recompute kind."""

import numpy as np

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import (
    BOTH,
    FULL,
    NONE,
    Cells,
    Network,
    Plan,
    Sizes,
    blocks_of,
    cells,
    check_cut,
    stage_cells,
    stage_table,
)
from evenflow.schedule import family_placement


def even_plan(
    network: Network, sizes: Sizes, *, schedule: str, recompute: str = NONE, allow_empty: bool = True
) -> Plan:
    """Return the plan with equal cells whose layers are all under one recompute kind.

    Layers that stay together count as one.

    Layers that are left over go one each to the last stages before the final one, because later stages keep fewer
    microbatches alive and the final one also holds the tail; the first stage, with the head, gets one only when every
    other but the final one has one. For 10 layers on 4 ranks::

        rank     0  1  2  3
        layers   2  3  3  2

    `schedule` is the name of a family, which places the stages on the ranks. With `allow_empty` there may be fewer
    layers than cells.

    Raises:
        InputError: there are fewer layers than cells, the network does not offer the kind, or the rules of its layers
            do not let such cells be.
    """
    blocks = blocks_of(network)
    number = network.num_layers if blocks is None else blocks.network.num_layers
    layers = even_layers(number, sizes, schedule=schedule, name=network.name, allow_empty=allow_empty)
    if not network.is_free:
        placement = family_placement(schedule, num_ranks=sizes.num_ranks, num_chunks=sizes.num_chunks)
        table = stage_table(placement, num_ranks=sizes.num_ranks)
        if blocks is not None:
            stages = np.array([layers[chunk][rank] for chunk, rank in stage_cells(table)])
            layers = cells(blocks.in_layers(stages)[table].tolist())
        check_cut(network, layers, table)
    check_offered(network, recompute, sequence_splits=sizes.sequence_splits, place="recompute")
    return Plan(
        schedule=schedule,
        num_microbatches=sizes.num_microbatches,
        layers=layers,
        recompute={} if recompute == NONE else {recompute: layers},
        sequence_splits=sizes.sequence_splits,
    )


def even_layers(num_layers: int, sizes: Sizes, *, schedule: str, name: str, allow_empty: bool = True) -> Cells:
    """Return how many layers each cell of an even plan has; `name` is the model's, for the message about too few.

    Raises:
        InputError: there are fewer layers than cells, and these may not be empty.
    """
    num_ranks, num_chunks, num_stages = sizes.num_ranks, sizes.num_chunks, sizes.num_cells
    if num_layers < num_stages and not allow_empty:
        raise InputError(
            value=num_layers,
            rule=_(
                "must be at least {num_stages}, one for each cell of {num_ranks} ranks x {num_chunks} chunks",
                num_stages=num_stages,
                num_ranks=num_ranks,
                num_chunks=num_chunks,
            ),
            place=_("layers of {name}", name=name),
            remedy=_("use fewer ranks or chunks"),
        )
    stages = even_stages(num_layers, num_stages)
    placement = family_placement(schedule, num_ranks=num_ranks, num_chunks=num_chunks)
    table = stage_table(placement, num_ranks=num_ranks)
    return cells([[stages[stage] for stage in row] for row in table.tolist()])


def even_stages(num_layers: int, num_stages: int) -> list[int]:
    """Return how many layers each stage of an even plan has; `even_plan` says where those go that are left over."""
    per_stage, left_over = divmod(num_layers, num_stages)
    return [per_stage + (num_stages - 1 - left_over <= stage < num_stages - 1) for stage in range(num_stages)]


def strongest_kind(network: Network, *, sequence_splits: int = 1) -> str:
    """Return the kind under which every measured recomputation is done: `full`, or else `both`, or else the leanest.

    The leanest keeps the fewest activations of the whole body. Where the network offers no kind, return `none`.
    """
    kinds = network.split_sequence(sequence_splits).kinds
    for kind in (FULL, BOTH):
        if kind in kinds:
            return kind
    return min(
        (kind for kind in kinds if kind != NONE),
        key=lambda kind: sum(run.count * run.layer.modes[kind].activation_bytes for run in network.runs),
        default=NONE,
    )


def check_offered(network: Network, kind: str, *, sequence_splits: int, place: str) -> None:
    """Raise InputError for a recompute kind for which the network has no costs."""
    if kind in network.split_sequence(sequence_splits).kinds:
        return
    if kind == FULL and kind in network.kinds:
        raise InputError(
            value=kind,
            rule=_("must not be full where a sequence is split: later parts need the keys and values that it drops"),
            place=place,
            remedy=_("use another kind, or do not split the sequence"),
        )
    raise InputError(
        value=kind,
        rule=_("must be one of the kinds with costs in the layer file: {names}", names=", ".join(network.kinds)),
        place=place,
        remedy=_("give the memory of {kind!r} in the layer file, for every body layer", kind=kind),
    )
