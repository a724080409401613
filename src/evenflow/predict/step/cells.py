"""Which layers every cell of the pipeline has, and how they recompute."""

from evenflow.baselines.even_plan import even_layers, even_plan
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import FULL, NONE, Cells, Network, Plan, Sizes, cells, stage_cells, stage_table
from evenflow.predict.training import Training
from evenflow.predict.transformer import Transformer
from evenflow.schedule import family_placement


def plan_of(training: Training, network: Network) -> Plan:
    """Return the plan of the cells: the given layout, or layers dealt evenly.

    Raises:
        InputError: a layout of another shape, or fewer layers than cells.
    """
    degrees = training.degrees
    schedule = training.schedule or ("interleaved" if degrees.chunks > 1 else "1f1b")
    sizes = training.sizes
    if training.layout:
        layers = _given(training)
    elif training.ends_are_layers:
        layers = _with_ends_as_layers(schedule, sizes, network.num_layers)
    else:
        layers = even_plan(network, sizes, schedule=schedule).layers
    return Plan(
        schedule=schedule,
        num_microbatches=training.microbatches,
        layers=layers,
        recompute=_recompute(training, layers),
        group_size=training.group_size if degrees.chunks > 1 else None,
    )


def dealt_evenly(model: Transformer, sizes: Sizes, *, schedule: str, allow_empty: bool) -> Cells:
    """Return how many layers each cell has when those that stay together are dealt as one.

    Raises:
        InputError: there are fewer of them than cells, and these may not be empty.
    """
    begins = [layer for layer, kind in enumerate(model.kinds) if not kind.joined]
    dealt = even_layers(len(begins), sizes, schedule=schedule, name=model.name, allow_empty=allow_empty)
    placement = family_placement(schedule, num_ranks=sizes.num_ranks, num_chunks=sizes.num_chunks)
    table = stage_table(placement, num_ranks=sizes.num_ranks)
    ends = [*begins, model.layers]
    layers, done = [[0] * sizes.num_ranks for _chunk in range(sizes.num_chunks)], 0
    for chunk, rank in stage_cells(table):
        end = done + dealt[chunk][rank]
        layers[chunk][rank] = ends[end] - ends[done]
        done = end
    return cells(layers)


def _given(training: Training) -> Cells:
    degrees, layout = training.degrees, training.layout
    if len(layout) != degrees.chunks or any(len(row) != degrees.pipeline for row in layout):
        rule = _(
            "must have a row for each chunk and a number for each rank, {num_chunks} x {num_ranks}",
            num_chunks=degrees.chunks,
            num_ranks=degrees.pipeline,
        )
        raise InputError(value=[list(row) for row in layout], rule=rule, place="layout")
    return cells(layout)


def _with_ends_as_layers(schedule: str, sizes: Sizes, num_layers: int) -> Cells:
    """Deal the layers and two more, embedding and loss, evenly, and take these out of the first and the last stage."""
    num_stages = sizes.num_cells
    of_stage, left_over = divmod(num_layers + 2, num_stages)
    if left_over or num_layers + 2 < num_stages:
        raise InputError(
            value=num_layers,
            rule=_("must fill the {num_stages} cells evenly, two more for embedding and loss", num_stages=num_stages),
            place="layers",
            remedy=_("give the layers of every cell"),
        )
    stages = [of_stage] * num_stages
    stages[0] -= 1
    stages[-1] -= 1
    placement = family_placement(schedule, num_ranks=sizes.num_ranks, num_chunks=sizes.num_chunks)
    table = stage_table(placement, num_ranks=sizes.num_ranks)
    return cells([[stages[stage] for stage in row] for row in table.tolist()])


def _recompute(training: Training, layers: Cells) -> dict[str, Cells]:
    kind = training.recompute
    if kind == NONE:
        return {}
    most = training.full_layers
    if kind != FULL or most is None:
        return {kind: layers}
    return {kind: cells([[min(most, count) for count in row] for row in layers])}
