"""torchtitan's settings as text."""

import tomllib
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from evenflow.model import FULL, Plan
from evenflow.schedule import schedule_of
from evenflow.targets.frameworks.torchtitan.writer import write
from evenflow.targets.stages import layers_by_kind, stages_of
from tests.targets.torch.strategies import plans

PLAN = Plan(
    schedule="zbv",
    num_microbatches=2,
    layers=((2, 1), (0, 2)),
    recompute={"full": ((1, 0), (0, 0)), "select": ((0, 0), (0, 1))},
)


def test_toml_of_a_plan() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=((2, 1),), recompute={"full": ((2, 1),)})
    written = write(plan, "0.2.2")
    assert written.pieces[0].text == (
        """\
[training]
local_batch_size = 4

[parallelism]
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "1F1B"
pipeline_parallel_schedule_csv = "order.csv"
module_fqns_per_model_part = [
    ["tok_embeddings", "layers.0", "layers.1"],
    ["layers.2", "norm", "output"],
]
pipeline_parallel_microbatch_size = 1

[activation_checkpoint]
mode = "full"
"""
    )
    assert written.pieces[1].file_name == "order.csv"
    assert written.pieces[1].text == "0F0,0F1,0B0,0F2,0B1,0F3,0B2,0B3\n1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n"


def test_python_of_a_plan() -> None:
    written = write(PLAN, "0.3.0")
    assert written.pieces[0].text == (
        '''\
"""The plan of evenflow for torchtitan."""

from evenflow.adapters.torchtitan import recompute_layers


def with_plan(config):
    """Return a configuration of a trainer that runs the plan."""
    config.training.local_batch_size = 2
    config.training.disable_cuda_graphs = True  # they do not go with a pipeline
    config.parallelism.pipeline_parallel_degree = 2
    config.parallelism.pipeline_parallel_schedule = "ZBVZeroBubble"
    config.parallelism.pipeline_parallel_schedule_csv = "order.csv"
    config.parallelism.module_fqns_per_model_part = [
        ["tok_embeddings", "layers.0", "layers.1"],
        ["layers.2"],
        ["layers.3", "layers.4"],
        ["norm", "lm_head"],
    ]
    config.parallelism.pipeline_parallel_microbatch_size = 1
    config.parallelism.pipeline_parallel_layers_per_stage = None
    if hasattr(config.loss, "loss_fn"):  # a chunked loss and split backwards lose the gradient of the last norm
        config.loss = config.loss.loss_fn
    config.activation_checkpoint = recompute_layers({
        "full": [0],
        "select": [3],
    })
    return config
'''
    )
    assert any("splits backwards" in note for note in written.notes)


def test_python_without_recomputation_needs_no_evenflow() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=((2, 1),))
    text = write(plan, "0.3.0").pieces[0].text
    assert "import" not in text
    assert "config.activation_checkpoint = None" in text


@given(plans(kinds=(FULL,)), st.booleans())
def test_toml_parses_and_says_the_plan(plan: Plan, by_operators: bool) -> None:
    if by_operators and plan.recompute:
        plan = replace(plan, recompute={"products": plan.layers})
    values = tomllib.loads(write(plan, "0.2.2").pieces[0].text)
    assert values["training"]["local_batch_size"] == plan.num_microbatches
    assert len(values["parallelism"]["module_fqns_per_model_part"]) == plan.num_ranks * plan.num_chunks
    wanted = {"mode": "selective", "selective_ac_option": "op"} if "products" in plan.recompute else {"mode": "full"}
    assert values["activation_checkpoint"] == (wanted if plan.recompute else {"mode": "none"})


@given(plans())
def test_python_compiles_and_says_the_plan(plan: Plan) -> None:
    text = write(plan, "0.3.0").pieces[0].text
    compile(text, "evenflow_plan.py", "exec")
    for kind, layers in layers_by_kind(stages_of(plan, schedule_of(plan).stage_ranks)).items():
        assert f'"{kind}": {list(layers)},' in text
