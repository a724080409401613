"""DualPipe-V: DualPipe cut in half, two chunks on a V. [DualPipe: DeepSeek-V3, arXiv:2412.19437, §3.2.1]"""

from collections import deque

import numpy as np

from evenflow.model import v_shaped
from evenflow.schedule.action import Op
from evenflow.schedule.schedule import Codes, Schedule, check_sizes

_Step = tuple[Op, int]
"""Operation and chunk."""

_F0, _F1 = (Op.F, 0), (Op.F, 1)


def dualpipe_v(*, num_ranks: int, num_microbatches: int, in_pairs: bool = False) -> Schedule:
    """Return DualPipe-V: each forward of one chunk stands beside a whole backward of the other chunk.

    Backwards are split where that fills a bubble.

    ::

        2 ranks, 4 microbatches; stages 0 and 3 on rank 0, 1 and 2 on rank 1
        rank 0  0F0 0F1 0F2 3F0 3I0 3W0 3F1 0F3 3B1     3F2 0B0     3B2     3F3     0B1     3B3     0I2 0W2 0I3 0W3
        rank 1      1F0 2F0 1F1 2F1 1F2 2B0     2F2 1B0     1F3 2B1     2F3 1B1     2B2     1B2     2I3 1I3 2W3 1W3

    In the steady phase a forward and a backward stand next to each other so that an engine can run them at the same
    time and hide their messages; as an order of work, the forward comes first. The phases are those of the public
    implementations (deepseek-ai/DualPipe, torch.distributed.pipelining). At most ``2 num_ranks + 1`` chunk activations
    are live on a rank. The phases need two microbatches per rank; with fewer, the order is that for two per rank,
    without the microbatches that do not exist.

    `in_pairs` lets those forwards and backwards run beside each other, each pair as one block. The last rank runs its
    first ones one after the other, as the public implementations do, so that the ranks before it wait less.
    """
    check_sizes(num_ranks=num_ranks, num_microbatches=num_microbatches)
    orders = [
        _order(rank, num_ranks=num_ranks, full=max(num_microbatches, 2 * num_ranks), num_microbatches=num_microbatches)
        for rank in range(num_ranks)
    ]
    if not in_pairs:
        orders = [order[:3] for order in orders]
    return Schedule.from_orders(
        name="dualpipe-v-overlap" if in_pairs else "dualpipe-v",
        num_stages=2 * num_ranks,
        num_microbatches=num_microbatches,
        stage_ranks=v_shaped(num_ranks=num_ranks),
        orders=orders,
    )


def _order(rank: int, *, num_ranks: int, full: int, num_microbatches: int) -> Codes:
    """Return the codes of one rank's order for `full` microbatches, without those from `num_microbatches` on.

    The fourth row has which forwards may run beside the backward behind them.
    """
    stages = (rank, 2 * num_ranks - 1 - rank)
    counts = {(op, chunk): 0 for op in (Op.F, Op.B) for chunk in (0, 1)}
    waiting: deque[tuple[int, int]] = deque()
    order: list[tuple[int, int, int, bool]] = []
    steps = _steps(rank, num_ranks=num_ranks, num_microbatches=full)
    for place, (op, chunk) in enumerate(steps):
        if op == Op.W:
            stage, microbatch = waiting.popleft()
        else:
            key = (Op.F if op == Op.F else Op.B, chunk)
            stage, microbatch = stages[chunk], counts[key]
            counts[key] += 1
            if op == Op.I:
                waiting.append((stage, microbatch))
        is_first_of_last_rank = rank == num_ranks - 1 and not any(counts[Op.B, other] for other in (0, 1))
        leads = op == Op.F and steps[place + 1][0] == Op.B and not is_first_of_last_rank
        if microbatch < num_microbatches:
            order.append((op, stage, microbatch, leads))
    # Of a pair both are there, or none: a microbatch that does not exist has neither.
    for place, (_op, _stage, _microbatch, leads) in enumerate(order):
        if leads and (place + 1 == len(order) or order[place + 1][0] != Op.B):
            order[place] = (*order[place][:3], False)
    return np.array(order, dtype=np.int32).T


def _steps(rank: int, *, num_ranks: int, num_microbatches: int) -> list[_Step]:
    """Return the operations and chunks of one rank in order; a weight gradient is always the oldest that waits."""
    after = num_ranks - rank - 1
    steps: list[_Step] = [_F0] * (2 * after)  # 1. fill the ranks below
    steps += [_F0, _F1] * (rank + 1)  # 2. both directions
    steps += [(Op.I, 1), (Op.W, 1), _F1] * after  # 3. gradients first, so that ranks below need not wait
    steps += [_F0, (Op.B, 1), _F1, (Op.B, 0)] * (num_microbatches - 2 * num_ranks + rank + 1)  # 4. pairs
    steps += [(Op.B, 1), _F1, (Op.B, 0)] * after  # 5. chunk 0 has no forwards left
    # 6. No forwards are left. The second half of the backwards is split, for weight gradients to fill what follows.
    steps += [(Op.B if place <= rank else Op.I, 1 - place % 2) for place in range(2 * (rank + 1))]
    steps += [(Op.W, 0), (Op.I, 0)] * after  # 7. gradients for the ranks above
    return steps + [(Op.W, 0)] * (rank + 1)  # 8. what is left
