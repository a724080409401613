"""ColossalAI: the order of work of a plan on a V, as the nodes that its zero-bubble scheduler runs one after the other.

    plugin = HybridParallelPlugin(..., pp_style="zbv", num_model_chunks=2, scheduler_nodes=scheduler_nodes("plan.json"))

Sends and receives are nodes too. All of them stand in the order of their time on equal stages, on every rank, so that
both sides of a transfer come to it in the same order and none waits for another in a circle.
"""

from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from evenflow.adapters.stage_counts import given_plan
from evenflow.baselines.equal_stages import equal_stages
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Plan
from evenflow.schedule import FAMILIES, Op, Schedule, schedule_of


class ScheduledAction(NamedTuple):
    """One node: the fields of ColossalAI's ``ScheduledNode`` that its scheduler reads, and when it runs."""

    type: str
    """``F``, ``B`` (gradients of inputs), ``W`` (of weights), or ``SEND_FORWARD`` and so on."""
    chunk: int
    stage: int
    """The rank."""
    minibatch: int
    start_time: int
    completion_time: int


def scheduler_nodes(plan: Plan | Path | str) -> list[list[Any]]:
    """Return for every rank the ``ScheduledNode`` of a plan, or of a plan file.

    Raises:
        InputError: a file without a plan, a plan whose schedule does not go back on a V.
    """
    from colossalai.pipeline.schedule.v_schedule import ScheduledNode

    plan = given_plan(plan)
    family = FAMILIES.get(plan.schedule)
    if plan.order or family is None or not family.is_v_shaped:
        names = ", ".join(name for name, member in FAMILIES.items() if member.is_v_shaped)
        raise InputError(value=plan.schedule, rule=_("must be one of {names}", names=names), place="schedule")
    return [[ScheduledNode(**node._asdict()) for node in nodes] for nodes in nodes_of(schedule_of(plan))]


def nodes_of(schedule: Schedule) -> list[list[ScheduledAction]]:
    """Return the nodes of every rank, in the order in which it runs them.

    A whole backward becomes a node for inputs and one for weights right after it.
    """
    timeline = equal_stages(schedule, forward_ns=2, backward_ns=4).timeline
    ranks: list[list[tuple[int, float, ScheduledAction]]] = [[] for _ in range(schedule.num_ranks)]
    transfers = 0

    def transfer(action: int, direction: str, rank: int, to_rank: int, node: ScheduledAction) -> None:
        nonlocal transfers
        end = int(timeline.end_ns[action])
        for side, at_rank in (("SEND", rank), ("RECV", to_rank)):
            moved = node._replace(type=f"{side}_{direction}", stage=at_rank, start_time=end, completion_time=end)
            ranks[at_rank].append((end, transfers, moved))
        transfers += 1

    for action in timeline.end_ns.argsort(kind="stable"):
        stage, op, rank = (int(column[action]) for column in (schedule.stages, schedule.ops, schedule.ranks))
        start, end = int(timeline.start_ns[action]), int(timeline.end_ns[action])
        chunk = int(schedule.stage_chunks[stage])
        node = ScheduledAction("F", chunk, rank, int(schedule.units[action]), start, end)
        if op == Op.F:
            ranks[rank].append((start, inf, node))
        if op in (Op.B, Op.I):
            ranks[rank].append((start, inf, node._replace(type="B")))
        if op in (Op.B, Op.W):
            ranks[rank].append((start, inf, node._replace(type="W")))
        neighbour = stage + 1 if op == Op.F else stage - 1
        if op != Op.W and 0 <= neighbour < schedule.num_stages and schedule.stage_ranks[neighbour] != rank:
            to_rank = schedule.stage_ranks[neighbour]
            transfer(int(action), "FORWARD" if op == Op.F else "BACKWARD", rank, to_rank, node)
    return [[node for _start, _turn, node in sorted(timed, key=lambda item: item[:2])] for timed in ranks]
