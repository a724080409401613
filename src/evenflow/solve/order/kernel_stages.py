"""The work of a step as the compiled loops of the search for orders take it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenflow.solve.work import Work


def kernel_stages(work: Work, splits: NDArray[np.bool_]) -> Any:
    """Return the stages of `work` for the kernels, where those of `splits` [num_stages] split their backwards."""
    from evenflow.solve.order.list_kernel import Stages  # loads numba

    costs = work.costs
    return Stages(
        work.stage_table,
        np.array(work.stage_ranks, dtype=np.int32),
        costs.durations,
        costs.activation_bytes,
        costs.until_weight_bytes,
        splits,
        work.room_bytes,
        work.alone_bytes(splits),
        work.gradient_units,
        work.num_units,
        work.sequence_splits,
        work.messages,
        bool(work.messages.any()),
    )
