"""Overrides of Megatron-Bridge in shell scripts, which `evenflow export` writes."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.targets.frameworks.megatron_bridge.target import TARGET
from evenflow.targets.registry import all_targets
from evenflow.targets.target import GivenSizes
from tests.targets.megatron_family.plans import flag_plans
from tests.thoroughness import examples

RUN = 'torchrun run_recipe.py --recipe llama3 "${PIPELINE_ARGS[@]}" model.num_layers='
RAY = "model: Qwen/Qwen3\ntrain:\n  pipeline_model_parallel_size: 1\n"


def script_of(plan: Plan) -> str:
    array = next(piece.text for piece in TARGET.write(plan, "0.3").pieces if piece.syntax == "shell")
    return f"{array}{RUN}{plan.num_layers}\n"


@given(plan=flag_plans())
@settings(max_examples=examples(40))
def test_what_is_exported_is_read(plan: Plan) -> None:
    assert TARGET.read is not None
    script = script_of(plan)
    found = TARGET.read(script, "run.sh", GivenSizes(num_microbatches=plan.num_microbatches))
    assert (found.plan.layers, found.plan.group_size) == (plan.layers, plan.group_size)
    assert found.plan.recompute == plan.recompute
    recognising = [target.name for target in all_targets().values() if target.recognise(script, "run.sh")]
    assert recognising == ["megatron-bridge"]


def test_an_override_in_a_condition_is_refused() -> None:
    assert TARGET.read is not None
    size = "model.pipeline_model_parallel_size=4"
    script = f"if [ -f x ]; then A=(--x {size}); fi\ntorchrun run.py model.num_layers=8 ${{A[@]}}\n"
    with pytest.raises(InputError, match=f"does not depend on a condition, got '{size}'"):
        TARGET.read(script, "run.sh", GivenSizes(num_microbatches=8))


def test_what_is_exported_is_edited() -> None:
    assert TARGET.apply is not None
    old = Plan(schedule="1f1b", num_microbatches=8, layers=((3, 1),))
    new = Plan(schedule="1f1b", num_microbatches=8, layers=((2, 2),))
    assert TARGET.apply(script_of(old), "run.sh", new) == script_of(new)


def test_modules_become_those_of_the_plan() -> None:
    assert TARGET.apply is not None
    assert TARGET.read is not None
    plain = Plan(schedule="1f1b", num_microbatches=8, layers=((2, 2),))
    moving = replace(plain, recompute={"layernorm+offload_expert_fc1": plain.layers})
    script = script_of(moving)
    assert "model.fine_grained_activation_offloading=true" in script
    found = TARGET.read(script, "run.sh", GivenSizes(num_microbatches=8))
    assert (found.plan, found.unknown) == (moving, ())
    applied = TARGET.apply(script, "run.sh", plain)
    assert "model.fine_grained_activation_offloading=false" in applied
    assert TARGET.read(applied, "run.sh", GivenSizes(num_microbatches=8)).plan == plain
    assert "offload" not in TARGET.apply(script_of(plain), "run.sh", plain)
    again = TARGET.apply(script_of(plain), "run.sh", moving)
    assert TARGET.read(again, "run.sh", GivenSizes(num_microbatches=8)).plan == moving


def test_a_model_that_is_a_name_is_of_another_framework() -> None:
    assert not TARGET.recognise(RAY, "gkd.yaml")
    assert TARGET.recognise("model:  # sizes\n  pipeline_model_parallel_size: 2\n", "run.yaml")
