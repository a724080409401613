from dataclasses import replace

from evenflow.cli.text.tables import (
    aligned,
    binding_note,
    bubble_table,
    limit_bar,
    memory_note,
    plan_table,
    round_up_megabytes,
)
from evenflow.model import Plan
from evenflow.profiles.layer_file import read_layer_file
from evenflow.simulate import simulate
from evenflow.solve import BindingLimit, Outcome, Status
from evenflow.units import MEGABYTE
from tests.networks import equal_network


def test_columns_are_aligned_and_no_line_ends_in_spaces():
    text = aligned(["name", "n"], [["a", "1,000"], ["long name", ""]], left={0})
    assert text == "name           n\na          1,000\nlong name"


def test_one_byte_over_the_limit_shows():
    assert limit_bar(100, 100) == "██████████ 100.0 %"
    assert limit_bar(10**9, 10**9 - 1) == "██████████ 100.0 %  OVER"
    assert limit_bar(99, 100) == "█████████░  99.0 %"
    assert limit_bar(0, 100) == "░░░░░░░░░░   0.0 %"


def test_a_limit_to_type_is_never_too_small():
    assert round_up_megabytes(MEGABYTE) == 1
    assert round_up_megabytes(MEGABYTE + 1) == 2


def test_kinds_and_chunks_in_use_have_their_columns(folder):
    plan = Plan(
        schedule="interleaved", num_microbatches=2, layers=((2, 1), (0, 1)), recompute={"full": ((1, 0), (0, 1))}
    )
    simulation = simulate(read_layer_file("tiny.json"), plan)
    header, *rows = (line.split() for line in plan_table(simulation, None).splitlines())
    assert header == ["rank", "layers", "full", "ms/microbatch", "peak", "MB", "idle", "%"]
    # Rank 0: two layers of 3 ms and 1 ms of recompute; rank 1 likewise, over two chunks.
    assert [row[:6] for row in rows] == [["0", "2", "0", "1", "0", "7.000"], ["1", "1", "1", "0", "1", "7.000"]]


def test_ranks_over_the_limit_are_named(folder):
    network = read_layer_file("tiny.json")
    simulation = simulate(network, Plan(schedule="1f1b", num_microbatches=2, layers=((2, 2),)))
    assert memory_note(simulation, 239 * MEGABYTE).endswith("1.0 MB over the limit of 239.0 MB")
    assert memory_note(simulation, 200 * MEGABYTE).endswith("over it on ranks 0-1")
    assert memory_note(simulation, 240 * MEGABYTE).endswith("0.0 MB within the limit of 240.0 MB")


def test_bubbles_below_zero_are_explained():
    def table(*layers, microbatches):
        return bubble_table(
            simulate(equal_network(12), Plan(schedule="1f1b", num_microbatches=microbatches, layers=(layers,)))
        )

    # Equal stages have nothing to explain; a short last stage lets every microbatch turn round sooner.
    assert "below zero" not in table(4, 4, 4, microbatches=3)
    short = table(5, 4, 3, microbatches=3)
    assert "-" in short.splitlines()[1]
    assert short.splitlines()[-1].startswith("below zero: ")


def test_limits_that_bind_are_named(folder):
    plan = Plan(schedule="1f1b", num_microbatches=2, layers=((2, 2),))
    outcome = Outcome(
        status=Status.FEASIBLE,
        simulation=simulate(read_layer_file("tiny.json"), plan),
        lower_bound_ns=1,
        memory_limit_bytes=250 * MEGABYTE,
        solve_seconds=1.0,
    )

    def note(*limits: tuple[int, int, bool]) -> str:
        found = (BindingLimit(rank=rank, more_bytes=more, takes_layer=takes) for rank, more, takes in limits)
        return binding_note(replace(outcome, binding=tuple(found)))

    assert binding_note(outcome) == ""
    assert note().startswith("no memory limit binds: ")
    assert note((1, MEGABYTE + 1, False)) == "memory binds on rank 1: with 2 MB more it would recompute less"
    assert note((0, 9 * MEGABYTE, False), (1, 1, True), (3, 5 * MEGABYTE, True)) == (
        "memory binds on ranks 0-1, 3: with 1 MB more, rank 1 would take a layer from its neighbour"
    )
