"""Layers that predict further tokens (multi-token prediction), for frameworks that do not count them."""

from dataclasses import replace

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Cells, Plan, cells, stage_cells, stage_table
from evenflow.schedule import schedule_of
from evenflow.targets.stages import stages_of


def without_mtp(plan: Plan) -> Plan:
    """Return `plan` without its layers of multi-token prediction; raises InputError unless its last stage has them.

    >>> plan = Plan(schedule="1f1b", num_microbatches=2, layers=((3, 2),), recompute={"full": ((0, 2),)}, mtp_layers=1)
    >>> without_mtp(plan).layers, without_mtp(plan).recompute["full"]
    (((3, 1),), ((0, 1),))
    """
    if not plan.mtp_layers:
        return plan
    last = stages_of(plan, schedule_of(plan).stage_ranks)[-1]
    if len(last.kinds) < plan.mtp_layers:
        rule = _("must have all of multi-token prediction in the last stage")
        raise InputError(value=[list(row) for row in plan.layers], rule=rule, place="layers")
    kept = last.kinds[: -plan.mtp_layers]
    recompute = {kind: _with(table, last.chunk, last.rank, kept.count(kind)) for kind, table in plan.recompute.items()}
    layers = _with(plan.layers, last.chunk, last.rank, len(kept))
    return replace(plan, layers=layers, recompute=recompute, mtp_layers=0)


def with_mtp_last(plan: Plan, mtp_layers: int) -> Plan:
    """Return a plan of the layers that a framework counts with those of multi-token prediction in its last stage.

    >>> plan = Plan(schedule="1f1b", num_microbatches=2, layers=((3, 1),))
    >>> with_mtp_last(plan, 1).layers
    ((3, 2),)
    """
    if not mtp_layers:
        return plan
    chunk, rank = stage_cells(stage_table(schedule_of(plan).stage_ranks, num_ranks=plan.num_ranks))[-1]
    layers = _with(plan.layers, chunk, rank, plan.layers[chunk][rank] + mtp_layers)
    return replace(plan, layers=layers, mtp_layers=mtp_layers)


def _with(table: Cells, chunk: int, rank: int, value: int) -> Cells:
    """Return the table with another value in one cell."""
    return cells(
        [[value if (c, r) == (chunk, rank) else old for r, old in enumerate(row)] for c, row in enumerate(table)]
    )
