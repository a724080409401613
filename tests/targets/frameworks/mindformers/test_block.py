from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evenflow.model import LayerRun, Network, Plan, cells
from evenflow.profiles.manual_file import read_manual_file
from evenflow.profiles.yaml_values import load_document
from evenflow.schedule import default_family
from evenflow.targets.frameworks.mindformers.block import body_plans, format_bodies, format_mindformers
from evenflow.targets.frameworks.mindformers.training_yaml import apply_plan
from tests.networks import equal_network

LESS_MEMORY = Plan(
    schedule="interleaved-less-memory",
    num_microbatches=4,
    layers=((2, 3), (2, 2)),
    recompute={"select": ((1, 0), (0, 0))},
)

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
    """The guide's block as a plan: it is a manual strategy but for its first line."""
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
    headline, *lists = block.splitlines()
    printed = format_mindformers(plan).splitlines()
    assert printed[0] == headline
    assert [line.strip() for line in lists] == [line.strip() for line in printed if ": [[" in line]


def test_the_block_is_what_the_training_yaml_gets():
    for plan in (LESS_MEMORY, replace(LESS_MEMORY, schedule="interleaved", sequence_splits=2)):
        block = format_mindformers(plan)
        fragment = load_document(block.partition("\n")[2], file="the block").value
        assert fragment == load_document(apply_plan("{}", file="x", plan=plan), file="x").value


def test_a_whole_block():
    assert (
        format_mindformers(LESS_MEMORY, without_environment="it is 3 MB more")
        == """To put in yaml configuration:
# with num_layers 9 and use_parallel True
# with the environment variable ENABLE_LESS_MEM_VPP=1: without it it is 3 MB more
model:
  model_config:
    offset: [[0, 1], [0, 0]]
    pp_interleave_num: 2
recompute_config:
  recompute: [[0, 0], [0, 0]]
  select_recompute: [[1, 0], [0, 0]]
  select_comm_recompute: [[0, 0], [0, 0]]
parallel_config:
  pipeline_stage: 2
  micro_batch_num: 4
  seq_split_num: 1
parallel:
  pipeline_config:
    pipeline_interleave: true
    pipeline_scheduler: "1f1b"
"""
    )


def test_comments_name_the_variable_and_older_models():
    assert "# with the environment variable ENABLE_LESS_MEM_VPP=1\n" in format_mindformers(LESS_MEMORY)
    split = replace(LESS_MEMORY, schedule="interleaved", sequence_splits=2)
    assert "# with use_legacy True" in format_mindformers(split)
    for plan in (replace(LESS_MEMORY, schedule="interleaved"), replace(LESS_MEMORY, layers=((4, 5),), recompute={})):
        assert "ENABLE" not in format_mindformers(plan)
        assert "legacy" not in format_mindformers(plan)


def test_a_plan_that_mindformers_refuses_says_so_in_its_block():
    few = replace(LESS_MEMORY, num_microbatches=1)
    assert "# MindFormers refuses this plan: microbatches must be at least" in format_mindformers(few)
    assert "refuses" not in format_mindformers(LESS_MEMORY)


def network(*counts: tuple[str, int]) -> Network:
    (run,) = equal_network(1, "full", "select").runs
    runs = tuple(LayerRun(layer=replace(run.layer, name=name), count=count) for name, count in counts)
    return Network(name="bodies", runs=runs)


def test_each_body_has_lists_of_its_own():
    plan = Plan(
        schedule="interleaved",
        num_microbatches=2,
        layers=((2, 3), (1, 3)),
        recompute={"full": ((1, 1), (0, 1)), "select": ((1, 1), (0, 1))},
    )
    # Layers in the order of the network: dense full, dense select | dense full, moe select, moe | moe | full, select, -
    assert (
        format_bodies(network(("dense", 3), ("moe", 6)), plan)
        == """
dense alone, 3 of 9 layers:
  offset: [[2, 1], [0, 0]]
  recompute: [[1, 1], [0, 0]]
  select_recompute: [[2, 1], [0, 0]]
  select_comm_recompute: [[1, 1], [0, 0]]

moe alone, 6 of 9 layers:
  offset: [[-1, 1], [0, 2]]
  recompute: [[0, 0], [0, 1]]
  select_recompute: [[0, 1], [0, 2]]
  select_comm_recompute: [[0, 0], [0, 1]]
"""
    )


def test_one_kind_of_body_layers_has_no_lists_of_its_own():
    plan = Plan(schedule="1f1b", num_microbatches=2, layers=((2, 2),))
    assert format_bodies(network(("layer", 4)), plan) == ""
    assert format_bodies(network(("layer", 1), ("layer", 3)), plan) == ""


@given(data=st.data())
def test_bodies_add_up_to_the_plan(data: st.DataObject):
    chunks, ranks = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    row = st.lists(st.integers(0, 3), min_size=ranks, max_size=ranks)
    full, select, rest = (data.draw(st.lists(row, min_size=chunks, max_size=chunks)) for _ in range(3))
    layers = np.sum([full, select, rest], axis=0)
    count = int(layers.sum())
    assume(count > 1)
    first = data.draw(st.integers(1, count - 1))
    plan = Plan(
        schedule="interleaved",
        num_microbatches=2,
        layers=cells(layers.tolist()),
        recompute={"full": cells(full), "select": cells(select)},
    )
    bodies = body_plans(network(("one", first), ("two", count - first)), plan)
    assert [body.num_layers for body in bodies.values()] == [first, count - first]
    assert np.array_equal(np.sum([body.layers for body in bodies.values()], axis=0), layers)
    for kind, table in (("full", full), ("select", select)):
        assert np.array_equal(np.sum([body.recompute[kind] for body in bodies.values()], axis=0), table)
