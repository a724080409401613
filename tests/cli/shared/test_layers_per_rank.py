"""``evenflow plan --layers-per-rank``: the user's split, dealt, checked and kept."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import Interrupted
from evenflow.model.split import deal_layers

TWO = ("plan", "tiny.json", "--ranks", 2, "--microbatches", 2)


@given(per_rank=st.lists(st.integers(0, 50), min_size=1, max_size=6), num_chunks=st.integers(1, 5))
def test_dealing_one_layer_after_the_other_gives_the_same(per_rank, num_chunks):
    expected = [[0] * len(per_rank) for _ in range(num_chunks)]
    for rank, count in enumerate(per_rank):
        for layer in range(count):
            expected[layer % num_chunks][rank] += 1
    assert [list(row) for row in deal_layers(per_rank, num_chunks=num_chunks)] == expected


@pytest.mark.parametrize(
    ("options", "layers"),
    [
        (("--layers-per-rank", "3,1"), ((3, 1),)),
        (("--chunks", 2, "--layers-per-rank", "5, 3"), ((3, 2), (2, 1))),  # [uneven VPP talk]
        (("--chunks", 2, "--layers-per-rank", "1,2", "--layers-per-rank", "4,1"), ((1, 2), (4, 1))),
        (("--chunks", 2, "--layers-per-rank", "7,1", "--allow-empty"), ((4, 1), (3, 0))),
        ((), None),
    ],
)
def test_the_split_reaches_the_solver(folder, evenflow, monkeypatch, options, layers):
    asked = {}

    def record(request, **_options):
        asked["layers"] = request.layers
        raise Interrupted

    network = json.loads((folder / "tiny.json").read_text())
    network["layers_description"][0]["nb_layer"] = 8 if "--chunks" in options else 4
    (folder / "tiny.json").write_text(json.dumps(network))
    monkeypatch.setattr("evenflow.solve.solve", record)
    assert evenflow(*TWO, *options).exit_code == 130
    assert asked["layers"] == layers


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("3,2",), "--layers-per-rank must add up to the 4 layers of the network, got 5"),
        (("2,1,1",), "--layers-per-rank must have a number for each of the 2 ranks, got [2, 1, 1]"),
        (("2,2", "--layers-per-rank", "2,2"), "--layers-per-rank must be given once, got 2"),
        (("2;2",), "--layers-per-rank must be counts, separated by commas, got '2;2'"),
        (("",), "--layers-per-rank must be counts, separated by commas"),
        (("4,0", "--no-empty"), "--layers-per-rank, chunk 0, rank 1 must hold at least one layer, got 0"),
        (
            ("3,1", "--chunks", 2, "--no-empty"),
            "--layers-per-rank, rank 1 must be at least the number of chunks (2)",
        ),
        (
            ("1,1", "--layers-per-rank", "1,1", "--layers-per-rank", "1,1", "--chunks", 2),
            "--layers-per-rank must be given once, or once for each of the 2 chunks, got 3",
        ),
    ],
)
def test_what_is_no_split_is_one_message(folder, evenflow, options, message):
    result = evenflow(*TWO, "--layers-per-rank", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: {message}")
    assert result.stderr.count("\n") == 1


def test_solved_with_the_split(folder, evenflow):
    """Rank 0 takes 3 * 3 ms: F0 F1 until 6 ms, B0 and B1 as soon as rank 1, with 1 + 2 ms each, has run them."""
    result = evenflow(*TWO, "--layers-per-rank", "3,1", "--json", "plan.json")
    assert result.exit_code == 0
    assert (
        "optimal to 2 parts in a million: no plan of this schedule with these layers is shorter than 18.000 ms"
        in result.stdout
    )
    assert json.loads((folder / "plan.json").read_text())["layers"] == [[3, 1]]


def test_an_infeasible_split_speaks_of_the_split(folder, evenflow):
    """Rank 0 needs 3 * (100 + 2 * 1) MB at least; with two layers each it would be 204 MB."""
    result = evenflow(*TWO, "--layers-per-rank", "3,1", "--memory", "250MB")
    assert result.exit_code == 3
    for part in (
        "infeasible: no plan with these layers fits in 250 MB",
        "the smallest limit that would do with these layers is 306 MB",
        "another split of the layers would fit, needing 204 MB",
    ):
        assert part in result.stderr
