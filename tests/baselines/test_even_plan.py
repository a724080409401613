import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.baselines.even_plan import even_plan, strongest_kind
from evenflow.errors import InputError
from evenflow.model import Plan, Sizes
from tests.networks import equal_network


def plan_of(
    num_layers: int,
    num_ranks: int,
    num_chunks: int,
    recompute: str = "none",
    *,
    sequence_splits: int = 1,
    allow_empty: bool = True,
) -> Plan:
    return even_plan(
        equal_network(num_layers, "full", "select"),
        Sizes(num_ranks=num_ranks, num_chunks=num_chunks, num_microbatches=8, sequence_splits=sequence_splits),
        schedule="interleaved",
        recompute=recompute,
        allow_empty=allow_empty,
    )


@pytest.mark.parametrize(
    ("num_layers", "num_chunks", "layers"),
    [
        (8, 1, ((2, 2, 2, 2),)),
        (9, 1, ((2, 2, 3, 2),)),
        (10, 1, ((2, 3, 3, 2),)),
        (11, 1, ((3, 3, 3, 2),)),
        (18, 2, ((2, 2, 2, 2), (2, 3, 3, 2))),
        (21, 2, ((2, 2, 3, 3), (3, 3, 3, 2))),
    ],
)
def test_what_is_left_over_goes_to_the_last_stages_before_the_final_one(
    num_layers: int, num_chunks: int, layers: tuple[tuple[int, ...], ...]
):
    assert plan_of(num_layers, 4, num_chunks).layers == layers


def test_fewer_layers_than_cells_leave_the_first_cells_empty():
    sizes = Sizes(num_ranks=3, num_chunks=2, num_microbatches=8)
    plan = even_plan(equal_network(4), sizes, schedule="interleaved", allow_empty=True)
    assert plan.layers == ((0, 1, 1), (1, 1, 0))


def test_on_a_v_the_final_stage_is_on_the_first_rank():
    """10 layers on 4 x 2 cells: stages 5 and 6 of 0..7 get one more, on ranks 2 and 1."""
    plan = even_plan(
        equal_network(10),
        Sizes(num_ranks=4, num_chunks=2, num_microbatches=8),
        schedule="zbv",
    )
    assert plan.layers == ((1, 1, 1, 1), (1, 2, 2, 1))


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 60), st.sampled_from(["none", "full"]))
def test_cells_are_even_and_under_one_kind(num_ranks: int, num_chunks: int, extra: int, kind: str):
    num_layers = num_ranks * num_chunks + extra
    plan = plan_of(num_layers, num_ranks, num_chunks, kind)
    counts = [count for row in plan.layers for count in row]
    assert plan.num_layers == num_layers
    assert max(counts) - min(counts) <= 1
    assert (plan.num_ranks, plan.num_chunks, plan.num_microbatches) == (num_ranks, num_chunks, 8)
    assert all(
        plan.count(kind, chunk, rank) == plan.layers[chunk][rank]
        for chunk in range(num_chunks)
        for rank in range(num_ranks)
    )


def test_refusals():
    with pytest.raises(InputError, match=r"must be at least 6, one for each cell of 2 ranks x 3 chunks, got 5"):
        plan_of(5, 2, 3, allow_empty=False)
    with pytest.raises(InputError, match="memory of 'comm' in the layer file"):
        plan_of(8, 2, 1, "comm")
    with pytest.raises(InputError, match="keys and values"):
        plan_of(8, 2, 1, "full", sequence_splits=2)
    with pytest.raises(InputError, match="the number of ranks must be an integer from 1"):
        plan_of(8, 0, 1)


@pytest.mark.parametrize(
    ("offered", "splits", "strongest"),
    [
        (("full", "select", "comm", "both"), 1, "full"),
        (("full", "select", "comm", "both"), 2, "both"),
        (("select", "comm"), 1, "select"),
        (("comm",), 1, "comm"),
        ((), 1, "none"),
        (("full",), 2, "none"),
    ],
)
def test_the_strongest_kind_is_full_or_both_or_the_leanest(offered: tuple[str, ...], splits: int, strongest: str):
    assert strongest_kind(equal_network(4, *offered), sequence_splits=splits) == strongest
