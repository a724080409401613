from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evenflow.errors import InputError
from evenflow.export.mindformers import format_mindformers, mindformers_lists, offsets, training_values
from evenflow.model import Plan
from evenflow.profiles.manual_file import read_manual_file
from evenflow.schedule import default_family
from tests.networks import equal_network

# What the [SAPP guide] prints, in Step 5 and for the 175B example.
ONE_CHUNK = """To put in yaml configuration:
  offset: [[-1, 0, 0, -1, -2, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, -1]]
  recompute: [[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]
  select_recompute: [[5, 6, 5, 5, 0, 3, 6, 6, 1, 1, 1, 1, 1, 1, 1, 0]]
  select_comm_recompute: [[5, 4, 5, 0, 0, 3, 0, 0, 1, 4, 0, 0, 0, 0, 0, 0]]
"""
THREE_CHUNKS = """To put in yaml configuration:
  offset: [[-1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, -1, 0, -1, 0, -1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 1, 0, 1, 0, 0, -1]]
  recompute: [[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]]
  select_recompute: [[1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 2], [2, 2, 2, 2, 2, 2, 1, 2, 1, 2, 1, 2, 2, 2, 2, 2], [1, 2, 2, 2, 1, 1, 3, 3, 0, 2, 0, 0, 0, 0, 1, 1]]
  select_comm_recompute: [[1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2], [2, 2, 2, 2, 2, 2, 1, 2, 1, 2, 1, 1, 2, 2, 2, 2], [2, 2, 2, 2, 2, 2, 3, 3, 3, 0, 0, 2, 0, 0, 1, 0]]
"""  # noqa: E501


def read_block(folder: Path, block: str, num_chunks: int) -> Plan:
    """A printed block as a plan: it is a manual strategy but for its first line."""
    path = folder / "printed.yaml"
    path.write_text("printed:\n" + block.partition("\n")[2] + f"  interleave_num: {num_chunks}\n", encoding="utf-8")
    (entry,) = read_manual_file(
        path,
        network=equal_network(96, "select", "comm", "both"),
        num_ranks=16,
        num_microbatches=16,
        schedule_of_chunks=lambda chunks: default_family(num_chunks=chunks),
    )  # fmt: skip
    return entry.plan


@pytest.mark.parametrize(("block", "num_chunks"), [(ONE_CHUNK, 1), (THREE_CHUNKS, 3)])
def test_the_printed_blocks_of_the_guide_come_out_again(tmp_path: Path, block: str, num_chunks: int):
    plan = read_block(tmp_path, block, num_chunks)
    assert plan.num_layers == 96
    assert format_mindformers(plan) == f"{block}  pp_interleave_num: {num_chunks}\n"


def test_a_v_has_no_lists():
    plan = Plan(schedule="zbv", num_microbatches=4, layers=((2, 2), (2, 2)))
    for write in (format_mindformers, training_values):
        with pytest.raises(InputError, match=r"schedule must be one of 1f1b, .*'zbv'"):
            write(plan)


def test_lists_are_cumulative_and_offsets_sum_to_the_remainder():
    plan = Plan(
        schedule="1f1b",
        num_microbatches=4,
        layers=((5, 9),),
        recompute={"full": ((1, 2),), "both": ((1, 1),), "select": ((2, 0),), "comm": ((0, 3),)},
    )
    assert mindformers_lists(plan) == {
        "offset": ((-2, 2),),
        "recompute": ((1, 2),),
        "select_recompute": ((4, 3),),
        "select_comm_recompute": ((2, 6),),
    }
    uneven = Plan(schedule="interleaved", num_microbatches=4, layers=((2, 3), (3, 3)))
    assert offsets(uneven) == ((0, 1), (1, 1))


def test_another_order_than_the_frameworks_is_refused():
    split = Plan(schedule="zb-h1", num_microbatches=4, layers=((3, 3),))
    with pytest.raises(InputError, match=r"got 'zb-h1'"):
        format_mindformers(split)


def test_what_mindformers_cannot_say_is_refused():
    mixed = Plan(
        schedule="1f1b", num_microbatches=4, layers=((3, 3),), recompute={"select": ((1, 1),), "comm": ((0, 1),)}
    )
    with pytest.raises(InputError, match=r"chunk 0, rank 1.*one cell"):
        mindformers_lists(mixed)
    named = Plan(schedule="1f1b", num_microbatches=4, layers=((3, 3),), recompute={"mine": ((1, 0),)})
    with pytest.raises(InputError, match="got 'mine'"):
        format_mindformers(named)


def test_training_values_of_one_chunk_switch_interleaving_off():
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=((3, 4),), recompute={"select": ((1, 0),)})
    assert training_values(plan) == {
        "model.model_config.offset": [[0, 1]],
        "model.model_config.pp_interleave_num": 1,
        "recompute_config.recompute": False,
        "recompute_config.select_recompute": [[1, 0]],
        "recompute_config.select_comm_recompute": [[0, 0]],
        "parallel_config.pipeline_stage": 2,
        "parallel_config.micro_batch_num": 4,
        "parallel_config.seq_split_num": 1,
        "parallel.pipeline_config.pipeline_interleave": False,
        "parallel.pipeline_config.pipeline_scheduler": "1f1b",
    }


@pytest.mark.parametrize(
    ("schedule", "num_chunks", "splits", "scheduler", "interleave"),
    [
        ("interleaved", 2, 1, "1f1b", True),
        ("interleaved-less-memory", 2, 1, "1f1b", True),
        ("interleaved", 1, 1, "1f1b", False),
        ("f-then-b", 1, 1, "gpipe", True),
        ("1f1b", 1, 2, "seqpipe", True),
        ("interleaved", 2, 4, "seqvpp", True),
    ],
)
def test_schedulers(schedule: str, num_chunks: int, splits: int, scheduler: str, interleave: bool):
    plan = Plan(schedule=schedule, num_microbatches=2, layers=((1, 1),) * num_chunks, sequence_splits=splits)
    values = training_values(plan)
    assert values["parallel.pipeline_config.pipeline_scheduler"] == scheduler
    assert values["parallel.pipeline_config.pipeline_interleave"] is interleave
    assert values["parallel_config.seq_split_num"] == splits


def test_only_the_first_and_last_stage_may_be_empty():
    ends = Plan(schedule="interleaved", num_microbatches=2, layers=((0, 3), (1, 0)))
    assert training_values(ends)["model.model_config.offset"] == [[-1, 2], [0, -1]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_microbatches": 1}, r"microbatches must be at least the number of ranks \(2\) .*got 1"),
        ({"layers": ((3, 3), (0, 3))}, "layers, chunk 1, rank 0 must be above zero"),
        (
            {"sequence_splits": 2, "recompute": {"full": ((1, 0), (0, 0))}},
            "recompute must not be full .*sequences are split",
        ),
        ({"sequence_splits": 2, "schedule": "f-then-b"}, "schedule must be a 1F1B order"),
        ({"schedule": "zb-h1"}, "schedule must be one of 1f1b, interleaved, .*'zb-h1'"),
    ],
)
def test_what_mindformers_would_refuse_later_is_refused_now(changes: dict[str, Any], message: str):
    plan = Plan(schedule="interleaved", num_microbatches=2, layers=((3, 3), (3, 3)))
    with pytest.raises(InputError, match=message):
        training_values(replace(plan, **changes))


def test_an_order_of_its_own_is_refused():
    plan = Plan(schedule="search", num_microbatches=1, layers=((1,),), order=("0F0,0B0",))
    with pytest.raises(InputError, match=r"schedule must be one of 1f1b, .*'search'"):
        format_mindformers(plan)
