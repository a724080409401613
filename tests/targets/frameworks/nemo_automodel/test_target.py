"""Recipes of NeMo AutoModel, written and read."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given

from evenflow.errors import InputError
from evenflow.model import FULL, Plan
from evenflow.schedule import schedule_of
from evenflow.targets.frameworks.nemo_automodel.reader import is_recipe, read
from evenflow.targets.frameworks.nemo_automodel.target import TARGET
from evenflow.targets.frameworks.nemo_automodel.writer import write
from evenflow.targets.target import GivenSizes
from tests.targets.torch.strategies import plans

NOTHING = GivenSizes()

RECIPE = """\
step_scheduler:
  global_batch_size: 32
  local_batch_size: 8
distributed:
  strategy: fsdp2
  pp_size: 2
  activation_checkpointing: true
  pipeline:
    pp_schedule: interleaved1f1b
    pp_microbatch_size: 2
    layers_per_stage: 4
    round_virtual_stages_to_pp_multiple: up
    scale_grads_in_schedule: false
    dtype: bf16
"""


def test_what_is_written() -> None:
    plan = Plan(schedule="1f1b-v", num_microbatches=4, layers=((2, 1), (1, 2)))
    recipe, order = write(plan, "0.7.0").pieces
    assert order.file_name == "order.csv"
    assert recipe.text == (
        """\
step_scheduler:
  local_batch_size: 4
distributed:
  pp_size: 2
  activation_checkpointing: false
  pipeline:
    pp_schedule: zbvzerobubble
    pp_schedule_csv: order.csv
    pp_microbatch_size: 1
    layers_per_stage: null
    module_fqns_per_model_part:
      - ["model.embed_tokens", "model.layers.0", "model.layers.1", "model.rotary_emb"]
      - ["model.layers.2", "model.rotary_emb"]
      - ["model.layers.3", "model.layers.4", "model.rotary_emb"]
      - ["model.layers.5", "model.rotary_emb", "model.norm", "lm_head"]
"""
    )


@given(plans(kinds=()))
def test_what_is_written_is_read_back(plan: Plan) -> None:
    recipe, order = write(plan, "0.7.0").pieces
    with TemporaryDirectory() as folder:
        (Path(folder) / "order.csv").write_text(order.text, encoding="utf-8")
        found = read(recipe.text, str(Path(folder) / "recipe.yaml"), NOTHING)
    assert is_recipe(recipe.text, "recipe.yaml")
    assert found.plan.layers == plan.layers
    assert schedule_of(found.plan).same_order(schedule_of(plan))
    assert found.plan.recompute == {}
    assert found.unknown == found.notes == ()


def test_recomputation_of_all_layers() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=2, layers=((2, 1),), recompute={FULL: ((2, 1),)})
    written = write(plan, "0.7.0")
    assert "activation_checkpointing: true" in written.pieces[0].text
    assert any("whole layers are recomputed" in note for note in written.notes)
    text = written.pieces[0].text.replace("order.csv", "''")
    assert read(text, "recipe.yaml", NOTHING).plan == plan
    abilities = TARGET.abilities("0.7.0")
    assert [scope.scope.value for scope in abilities.recomputation] == ["model"]


def test_the_cut_that_nemo_automodel_makes_itself() -> None:
    found = read(RECIPE, "recipe.yaml", GivenSizes(num_layers=10))
    assert found.plan == Plan(
        schedule="interleaved", num_microbatches=4, layers=((3, 3), (2, 2)), recompute={FULL: ((3, 3), (2, 2))}
    )
    assert found.unknown == ()
    plan = read(RECIPE.replace("    layers_per_stage: 4\n", ""), "recipe.yaml", GivenSizes(num_layers=9)).plan
    assert plan.layers == ((3, 2), (2, 2))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("pp_size: 2", "pp_size: 1", "distributed.pp_size must be at least 2"),
        (
            "local_batch_size: 8",
            "local_batch_size: 9",
            "local_batch_size must be a multiple of the 2 of pp_microbatch_size",
        ),
        ("interleaved1f1b", "interleaved_1f1b", "did you mean Interleaved1F1B"),
        ("interleaved1f1b", "dualpipev", "must place the stages as DualPipeV does"),
        ("layers_per_stage: 4", "layers_per_stage: 40", "must make a number of stages that Interleaved1F1B has"),
        ("to_pp_multiple: up", "to_pp_multiple: near", "must be up or down"),
        ("activation_checkpointing: true", "activation_checkpointing: some", "must be true, false, full or selective"),
        ("distributed:", "distributed: 3\nother:", "distributed must be an object"),
    ],
)
def test_what_nemo_automodel_refuses_is_one_message(old: str, new: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        read(RECIPE.replace(old, new), "recipe.yaml", GivenSizes(num_layers=10))
    assert message in str(error.value)


def test_what_is_not_understood_is_named() -> None:
    text = RECIPE.replace("dtype: bf16", "pp_split: 3").replace("checkpointing: true", "checkpointing: selective")
    unknown = read(text, "recipe.yaml", GivenSizes(num_layers=10)).unknown
    assert [place.rpartition(": ")[2] for place in unknown] == [
        "distributed.pipeline.pp_split",
        "distributed.activation_checkpointing",
    ]
    with pytest.raises(InputError, match="--layers must be given"):
        read(RECIPE, "recipe.yaml", NOTHING)


def test_other_files_are_not_taken_for_recipes() -> None:
    assert is_recipe(RECIPE, "recipe.yaml")
    assert not is_recipe("distributed: 3", "x.yaml")
    assert not is_recipe("a: [", "x.yaml")
    assert not is_recipe("parallelism:\n  pipeline_parallel: 2\n", "x.yaml")
