"""Whose configuration a text is: of one framework, and no other says that it is its own too."""

import pytest

from evenflow.model import Plan
from evenflow.targets.registry import all_targets
from evenflow.targets.target import GivenSizes

PLAN = Plan(
    schedule="interleaved",
    num_microbatches=8,
    layers=((2, 3, 2, 2), (2, 2, 3, 2)),
    recompute={"full": ((1, 1, 1, 1), (1, 1, 1, 1))},
)
ONE_CHUNK = Plan(schedule="1f1b", num_microbatches=8, layers=((4, 5, 4, 3),))
COMMAND = 'torchrun pretrain_gpt.py "${PIPELINE_ARGS[@]}" --seq-length 4096\n'


def written(name: str, plan: Plan = PLAN, version: str = "") -> str:
    target = all_targets()[name]
    return target.write(plan, version or target.versions[-1]).pieces[0].text


TEXTS = {
    "flagscale": "experiment: it\n" + written("flagscale", ONE_CHUNK) + "model:\n  hidden_size: 64\n",
    "llama-factory": "finetuning_type: full\ngradient_accumulation_steps: 8\n" + written("llama-factory"),
    "megatron": written("megatron") + COMMAND,
    "megatron, printed": "  num_layers ...... 16\n  pipeline_model_parallel_size ........ 4\n",
    "megatron-bridge": written("megatron-bridge") + "train:\n  micro_batch_size: 1\n",
    "megatron-bridge, older": "ConfigContainer:\n  model:\n    pipeline_model_parallel_size: 4\n",
    "mindformers": "parallel_config:\n  pipeline_stage: 4\nmodel:\n  model_config:\n    num_layers: 16\n",
    "mindformers-pynative": written("mindformers-pynative"),
    "mindspeed": written("mindspeed", version="26.0") + COMMAND,
    "mindspeed, layout": "# MindSpeed-LLM\n" + written("mindspeed") + COMMAND,
    "ms-swift": written("ms-swift") + 'megatron sft "${PIPELINE_ARGS[@]}" --model mine\n',
    "nemo-automodel": written("nemo-automodel") + "model:\n  name: it\n",
    "torchtitan": written("torchtitan", version="0.2.2") + "[model]\nname = 'llama3'\n",
    "primus": written("primus").replace("    overrides:", "    framework: megatron\n    overrides:"),
    "roll": written("roll").replace("  strategy_args:", "  training_args:\n    x: 1\n  strategy_args:"),
    "verl": written("verl") + 'python3 -m verl.trainer.main_ppo "${PIPELINE_ARGS[@]}"\n',
}


@pytest.mark.parametrize("name", TEXTS)
def test_one_framework_takes_a_text_for_its_own(name: str) -> None:
    found = [target.name for target in all_targets().values() if target.recognise(TEXTS[name], "file")]
    assert found == [name.partition(",")[0]]


@pytest.mark.parametrize(
    "name", ["llama-factory", "megatron", "megatron-bridge", "mindspeed", "ms-swift", "primus", "verl"]
)
def test_the_same_plan_is_in_the_text_of_every_framework_on_megatron(name: str) -> None:
    read = all_targets()[name].read
    assert read is not None
    found = read(TEXTS[name], "file", GivenSizes(num_microbatches=8))
    assert found.plan == PLAN
    assert found.unknown == ()


@pytest.mark.parametrize("text", ["", "a: 1\n", "model:\n  layers: 4\n", "echo hello\n", "{]", "# megatron sft\n"])
def test_no_framework_takes_other_texts(text: str) -> None:
    assert not [target.name for target in all_targets().values() if target.recognise(text, "file")]
