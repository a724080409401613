"""A user's recipe with a plan in it."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given

from evenflow.errors import InputError
from evenflow.model import FULL, Plan
from evenflow.schedule import schedule_of
from evenflow.targets.frameworks.nemo_automodel.editor import apply
from evenflow.targets.frameworks.nemo_automodel.reader import read
from evenflow.targets.frameworks.nemo_automodel.writer import write
from evenflow.targets.target import GivenSizes
from tests.targets.torch.strategies import plans

TEXT = """\
# a recipe
step_scheduler:
  global_batch_size: 0
  local_batch_size: 8  # sequences
distributed:
  strategy: fsdp2
  pp_size: 4
  activation_checkpointing: full
  pipeline:
    pp_schedule: interleaved1f1b
    pp_microbatch_size: 2
    layers_per_stage: 4
    dtype: bf16
"""
OWN_NAMES = """\
distributed:
  pp_size: 2
  pipeline:
    module_fqns_per_model_part:
      - [model.visual, model.text.embed, model.text.layers.0, model.rotary]
      - [model.text.layers.1, model.rotary, lm_head]
"""
PLAN = Plan(schedule="1f1b", num_microbatches=4, layers=((2, 1),))


def test_what_a_plan_decides_is_set_and_the_rest_stays() -> None:
    assert (
        apply(TEXT, "recipe.yaml", PLAN)
        == """\
# a recipe
step_scheduler:
  global_batch_size: 0
  local_batch_size: 8  # sequences
distributed:
  strategy: fsdp2
  pp_size: 2
  activation_checkpointing: false
  pipeline:
    pp_schedule: "1f1b"
    pp_microbatch_size: 2
    layers_per_stage: null
    dtype: bf16
    pp_schedule_csv: "order.csv"
    module_fqns_per_model_part: [["model.embed_tokens", "model.layers.0", "model.layers.1", "model.rotary_emb"], \
["model.layers.2", "model.rotary_emb", "model.norm", "lm_head"]]
"""
    )


def test_modules_keep_their_names() -> None:
    assert apply(OWN_NAMES, "recipe.yaml", PLAN).endswith(
        '    module_fqns_per_model_part: [["model.visual", "model.text.embed", "model.text.layers.0", '
        '"model.text.layers.1", "model.rotary"], ["model.text.layers.2", "model.rotary", "lm_head"]]\n'
        '    pp_schedule: "1f1b"\n    pp_schedule_csv: "order.csv"\n  activation_checkpointing: false\n'
        "step_scheduler:\n  local_batch_size: 4\n"
    )


def test_recomputation_in_other_words_stays() -> None:
    recomputing = Plan(schedule="1f1b", num_microbatches=4, layers=((2, 1),), recompute={FULL: ((2, 1),)})
    assert "activation_checkpointing: full\n" in apply(TEXT, "recipe.yaml", recomputing)


@given(plans(kinds=()))
def test_it_is_read_back_and_stays_when_done_again(plan: Plan) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "recipe.yaml"
        order = write(plan, "0.7.0").pieces[1]
        (Path(folder) / order.file_name).write_text(order.text, encoding="utf-8")
        for text in (TEXT, OWN_NAMES):
            edited = apply(text, str(file), plan)
            assert apply(edited, str(file), plan) == edited
            found = read(edited, str(file), GivenSizes())
            assert found.plan.layers == plan.layers
            assert schedule_of(found.plan).same_order(schedule_of(plan))
            assert found.plan.recompute == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            TEXT.replace("global_batch_size: 0", "global_batch_size: 12"),
            "global_batch_size must be a multiple of 8, the microbatches of the plan on one rank, got 12",
        ),
        (OWN_NAMES.replace("text.layers.1", "layers.1"), "must have one name for all layers, and other modules in"),
        (
            OWN_NAMES.replace("      - [model.text.layers.1,", "      - [x]\n      - [model.text.layers.1,"),
            "must have one name for all layers, and other modules in",
        ),
        (OWN_NAMES.replace("layers.1", "layers.2"), "must have every layer once"),
        ("distributed: 3\n", "distributed must be an object"),
    ],
)
def test_what_cannot_be_edited_has_one_message(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        apply(text, "recipe.yaml", PLAN)
