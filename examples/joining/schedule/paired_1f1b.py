"""A schedule of your own: 1F1B in pairs, two backwards and then two forwards."""

from evenflow.schedule import Action, Op, Schedule
from evenflow.schedule.family import ScheduleFamily


def paired_1f1b(*, num_ranks: int, num_microbatches: int) -> Schedule:
    """Return the order of work of every rank, as a pure function of the sizes."""
    orders = []
    for rank in range(num_ranks):
        forwards = [Action(rank, Op.F, microbatch) for microbatch in range(num_microbatches)]
        backwards = [Action(rank, Op.B, microbatch) for microbatch in range(num_microbatches)]
        warmup = min(2 * (num_ranks - rank), num_microbatches)
        order, forwards = forwards[:warmup], forwards[warmup:]
        while backwards:
            order += backwards[:2] + forwards[:2]
            backwards, forwards = backwards[2:], forwards[2:]
        orders.append(order)
    return Schedule.from_actions(
        name="paired-1f1b", num_stages=num_ranks, num_microbatches=num_microbatches, orders=orders
    )


FAMILY = ScheduleFamily(
    make=paired_1f1b,
    num_chunks=1,
    can_split=False,
    idea="1F1B in pairs: two backwards, then two forwards",
    limits="one chunk per rank; any numbers of ranks and microbatches",
    memory="min(m, 2(p-r))",
    bubble="(p-1)/(p-1 + m)",
    paper="an example of evenflow",
)
