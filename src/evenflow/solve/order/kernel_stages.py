"""The work of a step as the compiled loops of the search for orders take it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenflow.simulate import aheads, pair_class
from evenflow.solve.work import Work


def kernel_stages(work: Work, splits: NDArray[np.bool_]) -> Any:
    """Return the stages of `work` for the kernels, where those of `splits` [num_stages] split their backwards."""
    from evenflow.solve.order.list_kernel import Stages  # loads numba

    costs = work.costs
    return Stages(
        work.stage_table,
        work.stage_chunks,
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
        _pair_classes(work),
        np.zeros((0, 0), dtype=np.int64) if work.costs.pair_bytes is None else work.costs.pair_bytes,
        _copies(work),
    )


def _copies(work: Work) -> Any:
    """Return what moves to the host and the link for it."""
    from evenflow.solve.order.copies_kernel import Copies  # loads numba

    costs = work.costs
    if not work.has_copies or costs.host_link is None or costs.offloaded_bytes is None:
        nothing = np.zeros(0, dtype=np.int64)
        return Copies(nothing, False, nothing, 1, -1)
    link = costs.host_link
    buffers = -1 if link.buffers is None else link.buffers
    return Copies(costs.offloaded_bytes, link.one_engine, aheads(link, work.stage_table), link.behind, buffers)


def _pair_classes(work: Work) -> NDArray[np.uint32]:
    """Return the classes of pairs that save time (see `Stages`)."""
    saved_ns = work.costs.saved_ns
    if saved_ns is None:
        return np.zeros((0, 0), dtype=np.uint32)
    num_stages, num_chunks = saved_ns.shape
    classes = pair_class(
        np.arange(num_stages)[:, np.newaxis], np.arange(num_chunks), num_stages=num_stages, num_chunks=num_chunks
    )
    return np.where(saved_ns > 0, classes, 0).astype(np.uint32)
