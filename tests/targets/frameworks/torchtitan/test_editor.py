"""A user's TOML file with a plan in it."""

import tomllib
from dataclasses import replace

import pytest
from hypothesis import given

from evenflow.errors import InputError
from evenflow.model import FULL, Plan
from evenflow.targets.frameworks.torchtitan.editor import apply
from evenflow.targets.frameworks.torchtitan.reader import read
from evenflow.targets.target import GivenSizes
from tests.targets.torch.strategies import plans

TEXT = """\
# torchtitan Config.toml

[training]
local_batch_size = 2  # a rank
seq_len = 8192

[parallelism]
tensor_parallel_degree = 8  # 8-way TP
pipeline_parallel_degree = 1
pipeline_parallel_layers_per_stage = 2
pipeline_parallel_microbatch_size = 2

[activation_checkpoint]
mode = 'full' # ['none', 'selective', 'full']

[float8]
filter_fqns = "output"
"""


def test_what_a_plan_decides_is_set_and_the_rest_stays() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=((2, 1),))
    assert apply(TEXT, "run.toml", plan) == (
        TEXT.replace("local_batch_size = 2  #", "local_batch_size = 8  #")
        .replace("degree = 1\n", "degree = 2\n")
        .replace("pipeline_parallel_layers_per_stage = 2\n", "")
        .replace(
            "microbatch_size = 2\n",
            """microbatch_size = 2
pipeline_parallel_schedule = "1F1B"
pipeline_parallel_schedule_csv = "order.csv"
module_fqns_per_model_part = [
    ["tok_embeddings", "layers.0", "layers.1"],
    ["layers.2", "norm", "output"],
]
""",
        )
        .replace("mode = 'full' #", 'mode = "none" #')
    )


@given(plans(families=("1f1b", "interleaved", "f-then-b"), kinds=()))
def test_it_is_read_back_and_stays_when_done_again(plan: Plan) -> None:
    text = apply(TEXT, "run.toml", plan)
    assert apply(text, "run.toml", plan) == text
    found = read(text.replace('"order.csv"', '""'), "run.toml", GivenSizes()) if plan.schedule == "1f1b" else None
    assert found is None or found.plan == plan


def test_a_recomputation_that_toml_cannot_say_is_refused() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=((2, 1),), recompute={FULL: ((1, 1),)})
    with pytest.raises(InputError, match="recompute must be full or products for all layers, or none"):
        apply(TEXT, "run.toml", plan)


def test_the_policy_of_operators_is_a_selective_mode_and_stays_unused_elsewhere() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=((2, 1),), recompute={"products": ((2, 1),)})
    text = "[training]\n[parallelism]\n[activation_checkpoint]\nmode = 'none'\n"
    selective = apply(text, "run.toml", plan)
    assert tomllib.loads(selective)["activation_checkpoint"] == {"mode": "selective", "selective_ac_option": "op"}
    assert apply(selective, "run.toml", plan) == selective
    full = apply(selective, "run.toml", replace(plan, recompute={FULL: ((2, 1),)}))
    assert tomllib.loads(full)["activation_checkpoint"] == {"mode": "full", "selective_ac_option": "op"}


@pytest.mark.parametrize(
    ("text", "file", "message"),
    [
        ('{"parallelism": {}}', "config.json", "config.json must be the TOML file of a run of torchtitan 0.2"),
        ("def x(): pass", "config_registry.py", "config_registry.py must be the TOML file"),
        ("[parallelism", "run.toml", "cannot read run.toml: not TOML"),
        ("parallelism = 3", "run.toml", "run.toml: parallelism must be an object"),
        ("parallelism.x = 3", "run.toml", "run.toml must have [training], [parallelism], [activation_checkpoint] as"),
        ("[parallelism]\npipeline_parallel_microbatch_size = 0", "run.toml", "must be an integer from 1"),
    ],
)
def test_what_cannot_be_edited_is_one_message(text: str, file: str, message: str) -> None:
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=((2, 1),), recompute={FULL: ((2, 1),)})
    with pytest.raises(InputError) as error:
        apply(text, file, plan)
    assert message in str(error.value)
