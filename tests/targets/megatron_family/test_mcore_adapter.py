"""The arguments of mcore_adapter, in the training YAML of LLaMA-Factory and in pipelines of ROLL."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.predict.training import Sharding
from evenflow.targets.baseline_sets import in_offered_kinds
from evenflow.targets.registry import target_named
from evenflow.targets.target import GivenSizes, Target
from tests.targets.megatron_family.plans import flag_plans
from tests.targets.pages import page_of
from tests.targets.strategies import canonical
from tests.thoroughness import examples

LLAMA_FACTORY = """\
# GPU memory: 8 * 78GB
finetuning_type: full
cutoff_len: 4096
per_device_train_batch_size: 2
gradient_accumulation_steps: 12  # microbatches
tensor_model_parallel_size: 2
pipeline_model_parallel_size: 4
virtual_pipeline_model_parallel_size: 2
account_for_loss_in_pipeline_split: true
use_distributed_optimizer: true
additional_configs:
  num_layers_in_first_pipeline_stage: 3
recompute_granularity: full
bf16: true
"""
ROLL = """\
actor_train:
  training_args:
    per_device_train_batch_size: 2
    gradient_accumulation_steps: 12
  strategy_args:
    strategy_name: megatron_train
    strategy_config:
      tensor_model_parallel_size: 2
      pipeline_model_parallel_size: 4  # ranks
      recompute_granularity: selective
      recompute_modules: moe,layernorm
      use_distributed_optimizer: true
  device_mapping: list(range(0,32))
reference:
  strategy_args:
    strategy_name: megatron_infer
    strategy_config:
      pipeline_model_parallel_size: 1
"""
FILES = {"llama-factory": LLAMA_FACTORY, "roll": ROLL}
PLAN = Plan(
    schedule="interleaved",
    num_microbatches=12,
    layers=((3, 4, 4, 4), (4, 4, 4, 1)),
    recompute={"full": ((2, 2, 2, 2), (2, 2, 2, 1))},
    group_size=6,
)
PLAIN = Plan(schedule="1f1b", num_microbatches=12, layers=((4, 5),))


def functions(name: str) -> tuple[Target, Callable[..., Any], Callable[..., str]]:
    target = target_named(name)
    assert target.read is not None
    assert target.apply is not None
    return target, target.read, target.apply


@pytest.mark.parametrize("name", FILES)
@given(plan=flag_plans())
@settings(max_examples=examples(40))
def test_a_written_plan_is_read_back(name: str, plan: Plan) -> None:
    target, read, _apply = functions(name)
    (piece,) = target.write(plan, target.versions[-1]).pieces
    batch = {"llama-factory": f"gradient_accumulation_steps: {plan.num_microbatches}\n", "roll": ""}[name]
    given_sizes = GivenSizes(num_microbatches=plan.num_microbatches if name == "llama-factory" else None)
    text = batch + piece.text
    if name == "roll":
        text += f"  training_args: {{gradient_accumulation_steps: {plan.num_microbatches}}}\n"
    found = read(text, "it.yaml", given_sizes)
    assert canonical(found.plan) == canonical(plan)
    assert found.unknown == ()


@pytest.mark.parametrize("name", FILES)
@given(plan=flag_plans())
@settings(max_examples=examples(40))
def test_an_edited_file_reads_as_the_plan(name: str, plan: Plan) -> None:
    _target, read, apply = functions(name)
    text = FILES[name].replace("accumulation_steps: 12", f"accumulation_steps: {plan.num_microbatches}")
    edited = apply(text, "it.yaml", plan)
    found = in_offered_kinds(read(edited, "it.yaml", GivenSizes()), ["full", "select"])
    assert canonical(found.plan) == canonical(plan)
    assert apply(edited, "it.yaml", plan) == edited
    for line in text.splitlines():
        assert line in edited or "pipeline" in line or "recompute" in line or "additional" in line


def test_what_a_plan_decides_is_set_and_the_rest_stays() -> None:
    _target, _read, apply = functions("llama-factory")
    assert (
        apply(LLAMA_FACTORY, "it.yaml", PLAIN)
        == """\
# GPU memory: 8 * 78GB
finetuning_type: full
cutoff_len: 4096
per_device_train_batch_size: 2
gradient_accumulation_steps: 12  # microbatches
tensor_model_parallel_size: 2
pipeline_model_parallel_size: 2
use_distributed_optimizer: true
bf16: true
pipeline_model_parallel_layout: "Et*4|t*5L"
"""
    )


@pytest.mark.parametrize("name", FILES)
def test_sets_of_modules_are_one_text(name: str) -> None:
    target, read, apply = functions(name)
    plan = replace(PLAIN, recompute={"layernorm+moe": PLAIN.layers})
    text = target.write(plan, target.versions[-1]).pieces[0].text
    assert 'recompute_modules: "layernorm,moe"\n' in text
    edited = apply(FILES[name], "it.yaml", plan)
    assert read(edited, "it.yaml", GivenSizes()).plan == plan
    assert apply(edited, "it.yaml", plan) == edited


def test_modules_of_a_file_become_those_of_the_plan_but_for_what_no_plan_knows() -> None:
    _target, read, apply = functions("roll")
    same = replace(PLAIN, recompute={"layernorm+moe": PLAIN.layers})
    stays = apply(ROLL, "it.yaml", same)
    assert "      recompute_granularity: selective\n      recompute_modules: moe,layernorm\n" in stays
    assert "recompute" not in apply(ROLL, "x", PLAIN)
    selective = replace(PLAIN, recompute={"select": PLAIN.layers})
    edited = apply(ROLL.replace("moe,layernorm", "moe,mhc"), "it.yaml", selective)
    assert '      recompute_modules: "core_attn,mhc"\n' in edited
    found = read(edited, "it.yaml", GivenSizes())
    assert found.plan == selective
    assert found.unknown == ("it.yaml, line 11: recompute_modules: mhc",)
    edited = apply(ROLL.replace("moe,layernorm", "mhc"), "it.yaml", PLAIN)
    assert "      recompute_granularity: selective\n      recompute_modules: mhc\n" in edited
    found = in_offered_kinds(read(stays, "it.yaml", GivenSizes()), ["full", "select"])
    assert found.unknown == ("recompute_modules: layernorm", "recompute_modules: moe")


def test_full_recomputation_without_a_method_is_that_of_all_layers() -> None:
    _target, read, _apply = functions("llama-factory")
    text = LLAMA_FACTORY.replace("additional_configs:\n  num_layers_in_first_pipeline_stage: 3\n", "")
    found = read(text, "it.yaml", GivenSizes(num_layers=31))
    assert found.plan.layers == ((4, 4, 4, 4), (4, 4, 4, 3))
    assert found.plan.recompute == {"full": found.plan.layers}
    assert found.plan.num_microbatches == 12


def test_without_a_word_of_it_a_step_has_one_microbatch() -> None:
    _target, read, _apply = functions("roll")
    found = read(ROLL.replace("    gradient_accumulation_steps: 12\n", ""), "it.yaml", GivenSizes(num_layers=8))
    assert found.plan.num_microbatches == 1
    assert found.notes[0] == "gradient_accumulation_steps is 1 where nothing is said of it"


def test_microbatches_that_change_must_be_given() -> None:
    _target, read, _apply = functions("roll")
    text = ROLL.replace("actor_train:\n", "actor_train:\n  use_sequence_packing: true\n")
    assert read(text, "it.yaml", GivenSizes(num_layers=8, num_microbatches=7)).plan.num_microbatches == 7
    with pytest.raises(InputError, match="must be given, for the number of microbatches"):
        read(text, "it.yaml", GivenSizes(num_layers=8))


@pytest.mark.parametrize("name", FILES)
def test_the_degrees_of_a_file(name: str) -> None:
    target, _read, _apply = functions(name)
    assert target.read_degrees is not None
    stated = target.read_degrees(FILES[name], "it.yaml")
    assert (stated.tensor, stated.pipeline, stated.data) == (2, 4, None)
    assert (stated.microbatch, stated.rank_batch, stated.global_batch) == (2, 24, None)
    assert stated.sharding is Sharding.OPTIMIZER


def test_a_file_of_further_settings_is_named() -> None:
    _target, read, _apply = functions("roll")
    text = ROLL.replace("      use_dist", "      additional_configs: more.json\n      use_dist")
    found = read(text, "it.yaml", GivenSizes(num_layers=8))
    assert found.unknown[-1].endswith("additional_configs")


OTHER_WORKER = ROLL.replace("actor_train:", "student:")


def test_the_worker_that_trains() -> None:
    _target, read, apply = functions("roll")
    assert read(OTHER_WORKER, "it.yaml", GivenSizes(num_layers=8)).plan.num_ranks == 4
    critic = OTHER_WORKER + ROLL.partition("reference:")[0].replace("actor_train:", "critic:")
    with pytest.raises(InputError, match="must have one worker with the strategy megatron_train, or the worker actor_"):
        read(critic, "it.yaml", GivenSizes(num_layers=8))
    both = ROLL + OTHER_WORKER.partition("reference:")[0]
    assert apply(both, "it.yaml", PLAIN).endswith(OTHER_WORKER.partition("reference:")[0])


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("roll", "megatron_train", "deepspeed_train", "must have one worker with the strategy megatron_train"),
        ("roll", "steps: 12", "steps: 3", "must give the 12 microbatches of the plan, got '3 microbatches'"),
        ("roll", "steps: 12", "steps: many", "gradient_accumulation_steps must be"),
        ("llama-factory", "bf16: true", "extra_config: '{}'", "Megatron-Bridge in LLaMA-Factory takes no layout"),
        ("llama-factory", "full\nbf16: true", "&full full\nx: *full", "must not be repeated elsewhere"),
    ],
)
def test_what_cannot_be_edited_has_one_message(name: str, old: str, new: str, message: str) -> None:
    _target, _read, apply = functions(name)
    with pytest.raises(InputError, match=message):
        apply(FILES[name].replace(old, new), "it.yaml", PLAIN)


def test_a_file_of_neither_is_refused() -> None:
    _target, read, _apply = functions("llama-factory")
    with pytest.raises(InputError, match="must have a key that files of LLaMA-Factory have"):
        read("a: 1\n", "it.yaml", GivenSizes())


@pytest.mark.parametrize("name", FILES)
def test_the_page_shows_what_is_written(name: str) -> None:
    target = target_named(name)
    (piece,) = target.write(PLAN, target.versions[-1]).pieces
    assert piece.text in page_of(target)
