"""Small work to search orders for, and the same as the library takes it."""

import numpy as np
from hypothesis import strategies as st

from evenflow.model import Communication, stage_table
from evenflow.model.stage_ranks import looped, v_shaped
from evenflow.simulate import StageCosts
from evenflow.solve.work import Work
from tests.solve.order.oracle import Small


@st.composite
def small_work(draw: st.DrawFn) -> Small:
    """Few ranks and microbatches; rooms from what one microbatch alone needs up to plenty."""
    num_ranks, num_chunks = draw(st.sampled_from([(1, 1), (2, 1), (2, 1), (3, 1), (1, 2), (2, 2), (2, 2)]))
    may_split = draw(st.booleans())
    most = 4 if num_ranks * num_chunks < 3 else 3 if num_ranks * num_chunks == 3 or not may_split else 2
    placement = looped(num_ranks=num_ranks, num_chunks=num_chunks)
    if num_chunks == 2 and draw(st.booleans()):
        placement = v_shaped(num_ranks=num_ranks)

    def per_stage(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in placement)

    forward, weight = per_stage(1, 5), per_stage(0, 5)
    backward = tuple(each + draw(st.integers(1, 6)) for each in weight)
    saved = tuple(
        tuple(
            draw(st.integers(0, min(ahead, back)))
            for own_rank, back in zip(placement, backward, strict=True)
            if own_rank == rank
        )
        for rank, ahead in zip(placement, forward, strict=True)
    )
    activation = per_stage(1, 4)
    waiting = tuple(max(0, each + draw(st.sampled_from([-2, -1, 0, 0, 1]))) for each in activation)
    alone = [sum(activation[stage] for stage, own in enumerate(placement) if own == rank) for rank in range(num_ranks)]
    return Small(
        stage_ranks=placement,
        num_microbatches=draw(st.integers(2, most)),
        forward=forward,
        backward=backward,
        weight=weight,
        activation=activation,
        waiting=waiting,
        room=tuple(least + draw(st.sampled_from([0, 0, 1, 2, 3, 5, 100])) for least in alone),
        may_split=may_split,
        message=draw(st.sampled_from([0, 0, 1, 3])),
        saved=saved if draw(st.booleans()) else None,
    )


def as_work(small: Small) -> Work:
    def array(values: tuple[int, ...]) -> np.ndarray:
        return np.array(values, dtype=np.int64)

    stages, ranks = small.num_stages, len(small.room)
    table = stage_table(small.stage_ranks, num_ranks=ranks)
    return Work(
        stage_ranks=small.stage_ranks,
        num_ranks=ranks,
        num_microbatches=small.num_microbatches,
        sequence_splits=1,
        costs=StageCosts(
            num_ranks=ranks,
            forward_ns=array(small.forward),
            backward_ns=array(small.backward),
            weight_ns=array(small.weight),
            recompute_ns=array((0,) * stages),
            activation_bytes=array(small.activation),
            until_weight_bytes=array(small.waiting),
            static_bytes=array((0,) * ranks),
            working_bytes=array((0,) * ranks),
            saved_ns=None if small.saved is None else np.array(small.saved, dtype=np.int64),
            stage_table=None if small.saved is None else table,
        ),
        may_split=small.may_split,
        communication=Communication(latency_ns=small.message) if small.message else None,
        room_bytes=array(small.room),
    )


def equal_work(
    *, num_ranks: int, num_microbatches: int, may_split: bool, room: tuple[int, ...], waiting: int = 1
) -> Work:
    """Every stage: forward 1, input gradient 1, weight gradient 1, one byte of activation."""
    ones = (1,) * num_ranks
    return as_work(
        Small(
            stage_ranks=tuple(range(num_ranks)),
            num_microbatches=num_microbatches,
            forward=ones,
            backward=(2,) * num_ranks,
            weight=ones,
            activation=ones,
            waiting=(waiting,) * num_ranks,
            room=room,
            may_split=may_split,
        )
    )
