"""Primus's order ``zbv-formatted``, which is PyTorch's ZBVZeroBubble, and attention's inputs that first chunks move.

Under orders on a V alone, ``offload: true`` moves queries, keys and values of all layers of the first chunk to the
host. A copy may take the action behind its forward, and the one back the action ahead of its backward; all of a
device's copies are on one stream. [Primus, `zbv_formatted.py`, `VFoldScheduleAlgo` and `offload_handler.py`]
"""

from dataclasses import replace

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import FULL, Plan
from evenflow.model.plan import Cells, cells
from evenflow.schedule import Schedule, order_lines
from evenflow.targets.torch.schedule_names import named_schedule

ALGORITHM = "zbv-formatted"
MOVED = "offload_core_attn"
"""The kind of layers whose attention's inputs wait on the host."""
_TORCH_NAME = "ZBVZeroBubble"


def fewest_microbatches(num_ranks: int) -> int:
    """Return the fewest microbatches of the order: with fewer it would have passes of some that are not there."""
    return 2 * num_ranks - 1


def on_a_v(plan: Plan, *, moves: bool, place: str) -> Plan:
    """Return a plan of two chunks per rank in a loop as the same stages on a V, in the order of Primus.

    With `moves` the layers of the first chunks that are not under `full` have attention's inputs on the host.

    Raises:
        InputError: sizes that the order does not have.
    """
    if plan.num_chunks != 2:
        rule = _("must have two chunks per rank for {algorithm}", algorithm=ALGORITHM)
        raise InputError(value=plan.num_chunks, rule=rule, place=place)
    fewest = fewest_microbatches(plan.num_ranks)
    if plan.num_microbatches < fewest:
        rule = _("must have at least {fewest} microbatches for {algorithm}", fewest=fewest, algorithm=ALGORITHM)
        raise InputError(value=plan.num_microbatches, rule=rule, place=place)
    turned = _turned(plan)
    recompute = dict(turned.recompute)
    if moves:
        full = recompute.get(FULL, cells([[0] * plan.num_ranks] * 2))
        first = [count - again for count, again in zip(turned.layers[0], full[0], strict=True)]
        recompute[MOVED] = cells([first, [0] * plan.num_ranks])
    order = _order(plan)
    return replace(
        turned, schedule=order.name, recompute=recompute, group_size=None, order=order_lines(order), moved_share=None
    )


def in_a_loop(plan: Plan) -> Plan:
    """Return a plan in this order as one of the same stages in a loop, without what moves; the inverse of `on_a_v`."""
    turned = _turned(replace(plan, recompute={kind: rows for kind, rows in plan.recompute.items() if kind != MOVED}))
    return replace(turned, schedule="interleaved", order=())


def is_formatted(plan: Plan) -> bool:
    """Return whether a plan has this order."""
    if not plan.order or plan.num_chunks != 2 or plan.num_microbatches < fewest_microbatches(plan.num_ranks):
        return False
    return plan.sequence_splits == 1 and plan.order == order_lines(_order(plan))


def _order(plan: Plan) -> Schedule:
    return named_schedule(_TORCH_NAME, plan.sizes, place=ALGORITHM)


def _turned(plan: Plan) -> Plan:
    """Return the plan with its second chunks in the opposite order of ranks."""

    def turn(rows: Cells) -> Cells:
        return rows[0], rows[1][::-1]

    return replace(
        plan, layers=turn(plan.layers), recompute={kind: turn(rows) for kind, rows in plan.recompute.items()}
    )
