"""Plans of every kind for three ranks."""

import itertools
from dataclasses import replace

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.model.stage_ranks import v_shaped
from evenflow.schedule import FAMILIES, Action, Op, make_schedule
from evenflow.simulate import build_graph
from tests_torch.run.cases import NUM_RANKS


def family_plan(name: str) -> Plan:
    """Uneven cells, microbatches that the ranks do not divide where the family allows that, every kind of recompute."""
    chunks = FAMILIES[name].num_chunks or 2
    for microbatches in (5, 4, 6, 3):
        try:
            build_graph(make_schedule(name, num_ranks=NUM_RANKS, num_chunks=chunks, num_microbatches=microbatches))
        except InputError:
            continue
        break
    else:
        raise AssertionError(f"{name} has none of these sizes")
    kinds = (((1, 0, 1), (0, 0, 0)), ((0, 1, 0), (0, 0, 1)), ((1, 0, 0), (1, 0, 0)))
    recompute = {kind: table[:chunks] for kind, table in zip(("full", "select", "both"), kinds, strict=True)}
    return Plan(
        schedule=name,
        num_microbatches=microbatches,
        layers=((2, 1, 2), (1, 0, 1))[:chunks],
        recompute=recompute,
    )


def v_plan(num_microbatches: int) -> Plan:
    """Two chunks in a V, all forwards, then the backwards from the last microbatch to the first, split on rank 1."""
    ranks = v_shaped(num_ranks=NUM_RANKS)
    stages = range(2 * NUM_RANKS)
    orders = []
    for rank in range(NUM_RANKS):
        own = [stage for stage in stages if ranks[stage] == rank]
        order = [Action(stage, Op.F, unit) for stage in own for unit in range(num_microbatches)]
        for stage, unit in itertools.product(reversed(own), reversed(range(num_microbatches))):
            if rank == 1:
                order += [Action(stage, Op.I, unit), Action(stage, Op.W, unit)]
            else:
                order.append(Action(stage, Op.B, unit))
        orders.append(order)
    return Plan(
        schedule="v",
        num_microbatches=num_microbatches,
        layers=((1, 2, 0), (1, 1, 2)),
        recompute={"full": ((1, 1, 0),) * 2},
        order=tuple(",".join(map(str, order)) for order in orders),
    )


def own_order_plan(num_microbatches: int) -> Plan:
    """A plan with an order of its own, as a search finds them: every other backward is split, on each stage."""
    lines = []
    for rank in range(NUM_RANKS):
        schedule = make_schedule("1f1b", num_ranks=NUM_RANKS, num_chunks=1, num_microbatches=num_microbatches)
        order, late = [], []
        for action in schedule.order(rank):
            if action.op is Op.B and action.microbatch % 2:
                order.append(replace(action, op=Op.I))
                late.append(replace(action, op=Op.W))
            else:
                order.append(action)
                order += [late.pop()] if late else []
        lines.append(",".join(map(str, order + late)))
    return Plan(
        schedule="search",
        num_microbatches=num_microbatches,
        layers=((2, 1, 2),),
        recompute={"full": ((1, 0, 1),)},
        order=tuple(lines),
    )


V_PLAN = v_plan(4)
