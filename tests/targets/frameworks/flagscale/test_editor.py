"""A user's training YAML with a plan in it."""

import pytest
from hypothesis import given

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.targets.frameworks.flagscale.reader import read_sections
from evenflow.targets.frameworks.flagscale.target import TARGET
from evenflow.targets.target import GivenSizes
from tests.targets.strategies import canonical, plans

TEXT = """\
# training
system:
  tensor_model_parallel_size: 2
  # stages
  pipeline_model_parallel_size: 3  # of all kinds
  account_for_loss_in_pipeline_split: True
  hetero:
    enable_hetero: True
    hetero_pipeline_layer_split: [6, 2, 4]
    hetero_process_meshes: [2, 1, 1, 1, 3]
    hetero_device_types: ["A800"]
  recompute:
    recompute_granularity: "full"
    recompute_method: "uniform"
    recompute_num_layers: 1

    ## pp 3 stages
    recompute_granularity_per_stage_micro_batch:
      - [1, 30, 0, 2, 0]
      - [2, 30, 1, 2, 1]
  checkpoint:
    save_interval: 5
model:
  seq_length: 4096
"""
PLAIN = Plan(schedule="1f1b", num_microbatches=8, layers=((3, 4),))
FULL = Plan(schedule="1f1b", num_microbatches=8, layers=((3, 4),), recompute={"full": ((2, 0),)})
EVEN = """\
system:
  tensor_model_parallel_size: 2
  pipeline_model_parallel_size: 4
  decoder_first_pipeline_num_layers: 1
model:
  num_layers: 8
"""


def apply(text: str, plan: Plan) -> str:
    assert TARGET.apply is not None
    return TARGET.apply(text, "train.yaml", plan)


def test_what_a_plan_decides_is_set_and_the_rest_stays() -> None:
    assert (
        apply(TEXT, FULL)
        == """\
# training
system:
  tensor_model_parallel_size: 2
  # stages
  pipeline_model_parallel_size: 2  # of all kinds
  hetero:
    enable_hetero: True
    hetero_pipeline_layer_split: [3, 4]
    hetero_process_meshes: [2, 1, 1, 1, 2]
    hetero_device_types: ["A800"]
  recompute:
    recompute_granularity: "full"
    recompute_method: "block"
    recompute_num_layers: 2

    ## pp 3 stages
    recompute_granularity_per_stage_micro_batch: [[1, 8, 1], [1, 8, 0]]
    recompute_method_per_stage_micro_batch: [[2, 8, 1]]
    recompute_num_layers_per_stage_micro_batch: [[1, 8, 2], [1, 8, 0]]
  checkpoint:
    save_interval: 5
model:
  seq_length: 4096
"""
    )


def test_keys_that_a_plan_leaves_out_go_with_their_mapping_where_it_is_empty_then() -> None:
    edited = apply(TEXT.replace("\n    ## pp 3 stages\n", ""), PLAIN)
    assert edited.endswith("""\
    hetero_device_types: ["A800"]
  checkpoint:
    save_interval: 5
model:
  seq_length: 4096
""")


def test_an_even_cut_needs_no_kinds_of_device() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=((4, 4),))
    assert apply(EVEN, plan) == EVEN.replace("size: 4", "size: 2").replace(
        "  decoder_first_pipeline_num_layers: 1\n", ""
    )


@given(plan=plans(TARGET.abilities("2.0")))
def test_it_is_read_back_and_stays_when_done_again(plan: Plan) -> None:
    edited = apply(TEXT, plan)
    assert apply(edited, plan) == edited
    found = read_sections(edited, "train.yaml", GivenSizes(num_microbatches=plan.num_microbatches))
    assert canonical(found.plan) == canonical(plan)
    assert found.unknown == ()
    for line in ("# training\n", "  # stages\n", "# of all kinds\n", '["A800"]\n', "    save_interval: 5\n"):
        assert line in edited


MESHES = "hetero_process_meshes: [2, 1, 1, 1, 3]"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (EVEN.replace("8", "7"), "hetero_process_meshes must have five sizes for each kind of device: an uneven cut"),
        (TEXT.replace(MESHES, "hetero_process_meshes: [2, 1, 1]"), r"must have five sizes .*got \[2, 1, 1\]"),
        (
            TEXT.replace(MESHES, "hetero_process_meshes: [2, 1, 1, 1, 1, 2, 1, 1, 1, 2]"),
            "must have pipeline sizes that sum to the 2 ranks of the plan",
        ),
        (TEXT + "  num_layers: 9\n", "num_layers must be 7, as in the plan, got 9"),
        (TEXT + "  recompute_method: block\n", "recompute_method must be given once, to be edited"),
        (
            TEXT.replace(
                "  account_for_loss_in_pipeline_split: True\n", "  x: {account_for_loss_in_pipeline_split: 1}\n"
            ).replace("x: {", "x: {y: 1, "),
            "account_for_loss_in_pipeline_split must have its lines for itself, to be taken out",
        ),
        (
            TEXT.replace("split: True\n", "split: &yes True\n").replace("save_interval: 5", "save: *yes"),
            "must not be repeated elsewhere",
        ),
        ("system: [1]\n", "system must be"),
    ],
)
def test_what_cannot_be_edited_has_one_message(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        apply(text, PLAIN)
