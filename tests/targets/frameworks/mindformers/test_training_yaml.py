import pytest

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.targets.frameworks.mindformers.training_yaml import apply_plan

PLAN = Plan(
    schedule="interleaved",
    num_microbatches=4,
    layers=((2, 3), (2, 2)),
    recompute={"full": ((0, 1), (0, 0)), "select": ((1, 0), (0, 1))},
)
TRAINING_YAML = r"""# a small model
model:
  model_config:
    num_layers: 9   # decoder layers
    offset: 0

    seq_length: 64
recompute_config:
  recompute: False  # all of it
  select_recompute:
    'feed_forward\.mul': True
  select_comm_recompute: ['.*\.norm']
parallel_config: {data_parallel: &dp 2, pipeline_stage: 2}
parallel:
  dataset_strategy: [[*dp, 1]]
"""


def test_a_plan_in_a_training_yaml():
    assert apply_plan(TRAINING_YAML, file="train.yaml", plan=PLAN) == (
        r"""# a small model
model:
  model_config:
    num_layers: 9   # decoder layers
    offset: [[0, 1], [0, 0]]

    seq_length: 64
    pp_interleave_num: 2
recompute_config:
  recompute: [[0, 1], [0, 0]]  # all of it
  select_recompute: {"feed_forward\\.mul": [[1, 1], [0, 1]]}
  select_comm_recompute: {".*\\.norm": [[0, 1], [0, 0]]}
parallel_config: {data_parallel: &dp 2, pipeline_stage: 2, micro_batch_num: 4, seq_split_num: 1}
parallel:
  dataset_strategy: [[*dp, 1]]
  pipeline_config:
    pipeline_interleave: true
    pipeline_scheduler: "1f1b"
"""
    )


def test_a_plan_already_in_the_file_changes_nothing():
    once = apply_plan(TRAINING_YAML, file="train.yaml", plan=PLAN)
    assert apply_plan(once, file="train.yaml", plan=PLAN) == once


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "model: {model_config: {num_layers: 8}}",
            r"^train.yaml: model.model_config.num_layers must be .* the plan \(9\), got 8",
        ),
        ("model: {model_config: {num_hidden_layers: 8}}", r"num_hidden_layers must be .* the plan \(9\)"),
        ("model: 3", "^train.yaml, line 1: model must be a mapping"),
    ],
)
def test_a_file_that_a_plan_does_not_fit_is_refused(text: str, message: str):
    with pytest.raises(InputError, match=message):
        apply_plan(text, file="train.yaml", plan=PLAN)
