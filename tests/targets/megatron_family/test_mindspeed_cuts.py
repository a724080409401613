import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.targets.megatron_family.mindspeed_cuts import matrix_text, parse_matrix, parse_numbers, real_layers


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("[[0,1],[1,1]*4,[1,0]]", ((0, 1, 1, 1, 1, 1), (1, 1, 1, 1, 1, 0))),
        ("[[1],[2]*4,[1]]", ((1, 2, 2, 2, 2, 1),)),
        (" [ [3, 4], [4, 1] ] ", ((3, 4), (4, 1))),
    ],
)
def test_the_matrix_has_a_list_for_each_rank(text: str, layers: tuple[tuple[int, ...], ...]) -> None:
    assert parse_matrix(text, place="it") == layers


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[3,4]",
        "[[3,4],[4]]",
        "[[3],[4]",
        "[[3]*]",
        "[[a]]",
        "[[3]*0]",
        "[[3]*999999]",
        "[[-1]]",
        "[[1]]x",
        "[[]]",
    ],
)
def test_another_text_is_no_matrix(text: str) -> None:
    with pytest.raises(InputError, match="it must have"):
        parse_matrix(text, place="it")


@given(
    st.integers(1, 6).flatmap(
        lambda ranks: st.lists(st.lists(st.integers(0, 9), min_size=ranks, max_size=ranks), min_size=1, max_size=3)
    )
)
def test_a_written_matrix_is_read_back(rows: list[list[int]]) -> None:
    layers = tuple(map(tuple, rows))
    assert parse_matrix(matrix_text(layers), place="it") == layers


def test_numbers_of_a_list() -> None:
    assert parse_numbers("4, 4,5,3", place="it") == (4, 4, 5, 3)
    for text in ("", "4,,5", "4;5", "9999999", "-1", "4,"):
        with pytest.raises(InputError, match="it must be whole numbers"):
            parse_numbers(text, place="it")


def test_layers_that_do_nothing_are_counted_in_the_order_of_stages() -> None:
    assert real_layers(((2, 1), (1, 2)), (1, 5)) == (((True, False), (True,)), ((True,), (True, False)))
