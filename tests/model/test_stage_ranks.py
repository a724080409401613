"""Placements and the table of their stages are inverses."""

from hypothesis import given
from hypothesis import strategies as st

from evenflow.model.stage_ranks import stage_table


@given(st.data(), st.integers(1, 5), st.integers(1, 3))
def test_every_stage_is_in_the_column_of_its_rank_in_order(data: st.DataObject, num_ranks: int, num_chunks: int):
    stage_ranks = data.draw(st.permutations(tuple(range(num_ranks)) * num_chunks))
    table = stage_table(stage_ranks, num_ranks=num_ranks)
    assert table.shape == (num_chunks, num_ranks)
    for rank, stages in enumerate(table.T.tolist()):
        assert stages == [stage for stage, own in enumerate(stage_ranks) if own == rank]
