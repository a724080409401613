"""Tests of what ranks keep of their first backwards, against Megatron-LM's steps over single groups."""

from hypothesis import given
from hypothesis import strategies as st

from evenflow.model import moved_of_first
from tests.megatron_offload import Group, decide

_GROUPS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), max_size=5)


@given(
    backwards=st.lists(_GROUPS, max_size=6),
    share=st.floats(0, 1),
    rank=st.integers(0, 3),
    delta=st.integers(0, 40),
)
def test_what_moves_is_what_megatron_moves(
    backwards: list[list[tuple[int, int]]], share: float, rank: int, delta: int
) -> None:
    theirs = [[Group(name, size) for name, size in groups] for groups in backwards]
    decide(theirs, rank=rank, fraction=share, delta=delta)
    moved = moved_of_first(backwards, share=share, kept_bytes=rank * delta)
    sizes = [sum(group.size for group in groups if group.offload) for groups in theirs]
    assert list(moved) == sizes[: len(moved)]
    if delta == 0 or rank == 0:
        assert moved == ()
    plain = [[Group(name, size) for name, size in groups] for groups in backwards]
    decide(plain, rank=0, fraction=share, delta=0)
    assert sizes[len(moved) :] == [
        sum(group.size for group in groups if group.offload) for groups in plain[len(moved) :]
    ]
