"""Primus's ``zbv-formatted``: its order, attention's inputs on the host, and files that ask for both."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import HostLink, Plan
from evenflow.schedule import make_schedule, order_lines, schedule_of
from evenflow.simulate import simulate
from evenflow.targets.frameworks.primus.formatted_zbv import MOVED, is_formatted, on_a_v
from evenflow.targets.frameworks.primus.target import TARGET
from evenflow.targets.refusal import refusal
from evenflow.targets.target import Baseline, GivenSizes
from tests.networks import plain_network
from tests.solve.test_offload import offloading
from tests.targets.frameworks.primus.test_target import USER_FILE
from tests.targets.strategies import canonical

FILE = """\
modules:
  pre_trainer:
    framework: megatron
    overrides:
      pipeline_model_parallel_size: 3
      pipeline_model_parallel_layout: "Et*2|t*3|t|t*4|t*2|tL"
      patch_primus_pipeline: true
      pp_algorithm: zbv-formatted
"""
RECOMPUTED = "      recompute_granularity: full\n      recompute_layer_ids: [0, 2, 5, 12]\n"
MOVING = "      offload: true\n      offload_ops: attn\n"


def read(text: str, num_microbatches: int = 5) -> Baseline:
    assert TARGET.read is not None
    return TARGET.read(text, "mine.yaml", GivenSizes(num_microbatches=num_microbatches))


def lines_of_primus(num_ranks: int, num_microbatches: int) -> list[str]:
    """The order that Primus describes, with the names of evenflow: B is I.

    A warm-up of 2 (p - r) - 1 forwards of the first chunk, then r of the second and the first in turn, then p - r of
    the second, each with its two gradients at once; then in turn a forward of the first chunk with both gradients of
    one before it, and the same of the second; input gradients of both chunks r times, p - r of the first with weight
    gradients, and what is left of the weight gradients, the second chunk first.
    """
    return [",".join(_line(rank, num_ranks, num_microbatches)) for rank in range(num_ranks)]


def _line(rank: int, num_ranks: int, num_microbatches: int) -> list[str]:
    stages, line = (rank, 2 * num_ranks - 1 - rank), []
    counts = {(chunk, op): 0 for chunk in range(2) for op in "FIW"}

    def add(chunk: int, ops: str) -> None:
        for op in ops:
            line.append(f"{stages[chunk]}{op}{counts[chunk, op]}")
            counts[chunk, op] += 1

    for _ in range(2 * (num_ranks - rank) - 1):
        add(0, "F")
    for _ in range(rank):
        add(1, "F")
        add(0, "F")
    for _ in range(num_ranks - rank):
        add(1, "FIW")
    while counts[1, "F"] < counts[0, "F"] or counts[0, "F"] < num_microbatches:
        add(0, "FIW" if counts[0, "F"] < num_microbatches else "IW")
        add(1, "FIW")
    for _ in range(rank):
        add(0, "I")
        add(1, "I")
    for _ in range(num_ranks - rank):
        add(0, "IW")
    for chunk in (1, 0):
        while counts[chunk, "W"] < counts[chunk, "I"]:
            add(chunk, "W")
    return line


@pytest.mark.parametrize("num_ranks", [2, 3, 4, 7])
def test_the_order_is_the_one_that_primus_describes(num_ranks: int) -> None:
    layers = ((1,) * num_ranks, (1,) * num_ranks)
    for num_microbatches in range(2 * num_ranks - 1, 4 * num_ranks):
        loop = Plan(schedule="interleaved", num_microbatches=num_microbatches, layers=layers)
        plan = on_a_v(loop, moves=False, place="pp_algorithm")
        assert list(plan.order) == lines_of_primus(num_ranks, num_microbatches)
        assert is_formatted(plan)
        zbv = make_schedule("zbv", num_ranks=num_ranks, num_chunks=2, num_microbatches=num_microbatches)
        assert not is_formatted(replace(plan, schedule=zbv.name, order=tuple(order_lines(replace(zbv, name="own")))))


def test_the_plan_of_a_file_on_a_v() -> None:
    found = read(FILE + RECOMPUTED + MOVING)
    plan = found.plan
    assert plan.layers == ((2, 3, 1), (1, 2, 4))  # the last stage is on rank 0
    assert plan.recompute == {"full": ((1, 1, 1), (1, 0, 0)), MOVED: ((1, 2, 0), (0, 0, 0))}
    assert schedule_of(plan).stage_table.tolist() == [[0, 1, 2], [5, 4, 3]]
    assert found.unknown == ()
    assert any("USE_PINNED_OFFLOAD=1" in note for note in found.notes)


def test_copies_are_of_the_first_chunks_and_leave_memory_there() -> None:
    plan = read(FILE + MOVING).plan
    network = offloading(plain_network(13), HostLink(bytes_per_s=10**12, one_engine=True), {})
    moving = replace(plan, recompute={"host": plan.recompute[MOVED]})
    moved, kept = simulate(network, moving), simulate(network, replace(plan, recompute={}))
    assert moved.costs.offloaded_bytes is not None
    assert (moved.costs.offloaded_bytes > 0).tolist() == [True, True, True, False, False, False]
    assert all(less < more for less, more in zip(moved.peak_memory_bytes, kept.peak_memory_bytes, strict=True))


@pytest.mark.parametrize("more", ["", RECOMPUTED, MOVING, RECOMPUTED + MOVING])
def test_what_a_file_asks_for_is_written_as_it_was(more: str) -> None:
    plan = read(FILE + more).plan
    abilities = TARGET.abilities("26.1")
    assert refusal(plan, abilities, title=TARGET.title) is None
    (piece,) = TARGET.write(plan, "26.1").pieces
    written = piece.text.replace("pre_trainer:\n", "pre_trainer:\n    framework: megatron\n")
    assert canonical(read(written).plan) == canonical(plan)
    assert TARGET.apply is not None
    applied = TARGET.apply(USER_FILE + MOVING, "mine.yaml", plan)
    assert canonical(read(applied).plan) == canonical(plan)
    assert ("offload: true" in applied) == (MOVING in more)


def test_a_plan_of_a_family_moves_nothing() -> None:
    assert TARGET.apply is not None
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=((2, 2),))
    assert "offload: false" in TARGET.apply(USER_FILE + MOVING, "mine.yaml", plan)


@given(data=st.data())
def test_only_whole_first_chunks_move(data: st.DataObject) -> None:
    """Every table of layers that move but that of all layers of the first chunks that are not recomputed is refused."""
    plan = read(FILE + RECOMPUTED + MOVING).plan
    table = tuple(
        tuple(data.draw(st.integers(0, most - again)) for most, again in zip(*rows, strict=True))
        for rows in zip(plan.layers, plan.recompute["full"], strict=True)
    )
    other = replace(plan, recompute={**plan.recompute, MOVED: table})
    refused = refusal(other, TARGET.abilities("26.1"), title=TARGET.title)
    assert (refused is None) == (table == plan.recompute[MOVED] or not any(map(any, table)))


def test_another_order_of_its_own_is_refused() -> None:
    plan = read(FILE).plan
    first, *others = plan.order
    other = replace(plan, order=(first.replace("5W0,5F1", "5F1,5W0"), *others))
    assert other.order != plan.order
    assert refusal(other, TARGET.abilities("26.1"), title=TARGET.title) is not None


@pytest.mark.parametrize(
    ("text", "count", "message"),
    [
        (FILE, 4, r"pp_algorithm must have at least 5 microbatches for zbv-formatted"),
        (FILE.replace("|t*4|t*2|tL", "L"), 5, r"pp_algorithm must have two chunks per rank for zbv-formatted"),
        (FILE.replace("zbv-formatted", "1f1b-interleaved") + MOVING, 6, r"offload must be false: only zbv-formatted"),
        (FILE.replace("zbv-formatted", "v-min") + MOVING, 6, r"pp_algorithm must be 1f1b, 1f1b-interleaved, zero-bub"),
        (FILE + "      decoder_pipeline_manual_split_list: [2, 3, 1, 4, 2, 1]\n", 5, r"list must be null beside zbv-f"),
        (FILE + "      patch_zero_bubble: true\n", 5, r"patch_zero_bubble must be false"),
    ],
)
def test_what_primus_does_not_run_is_refused(text: str, count: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(text, count)


def test_operators_that_primus_does_not_move_are_named() -> None:
    found = read(FILE + '      offload: true\n      offload_ops: "attn,row_parallel_gemm"\n')
    assert [key.split(": ")[-1] for key in found.unknown] == ["row_parallel_gemm"]
    assert MOVED in found.plan.recompute
    assert MOVED not in read(FILE + "      offload: true\n").plan.recompute
