from pathlib import Path

import pytest

from evenflow.errors import InputError
from evenflow.export import write_plan
from evenflow.export.mindformers import format_mindformers, mindformers_lists, offsets
from evenflow.model import Layer, LayerRun, Mode, Network, Plan
from evenflow.profiles.manual_file import read_manual_file

# What document 001 prints, in Step 5 and for the 175B example.
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
    modes = {kind: Mode(activation_bytes=1, backward_ns=2) for kind in ("none", "select", "comm", "both")}
    layer = Layer(name="body", forward_ns=1, parameter_bytes=1, modes=modes)
    network = Network(name="llama_175b", runs=(LayerRun(layer=layer, count=96),))
    (entry,) = read_manual_file(
        path, network=network, num_ranks=16, num_microbatches=16, schedule_of_chunks=lambda chunks: f"any of {chunks}"
    )
    return entry.plan


@pytest.mark.parametrize(("block", "num_chunks"), [(ONE_CHUNK, 1), (THREE_CHUNKS, 3)])
def test_the_printed_blocks_of_document_001_come_out_again(tmp_path: Path, block: str, num_chunks: int):
    plan = read_block(tmp_path, block, num_chunks)
    assert plan.num_layers == 96
    assert format_mindformers(plan) == f"{block}  pp_interleave_num: {num_chunks}\n"
    assert write_plan(plan, "mindformers") == format_mindformers(plan)


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


def test_what_mindformers_cannot_say_is_refused():
    mixed = Plan(
        schedule="1f1b", num_microbatches=4, layers=((3, 3),), recompute={"select": ((1, 1),), "comm": ((0, 1),)}
    )
    with pytest.raises(InputError, match=r"chunk 0, rank 1.*one cell"):
        mindformers_lists(mixed)
    named = Plan(schedule="1f1b", num_microbatches=4, layers=((3, 3),), recompute={"mine": ((1, 0),)})
    with pytest.raises(InputError, match="got 'mine'"):
        format_mindformers(named)


def test_an_unknown_framework_is_refused_with_the_known_ones():
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=((3, 3),))
    with pytest.raises(InputError, match=r"one of mindformers.*got 'mindformer'"):
        write_plan(plan, "mindformer")
