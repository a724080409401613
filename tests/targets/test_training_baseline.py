"""What a user runs today: what is written of a training reads back as the same training, and spoiled files are told."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.predict.expert_work import expert_tensor
from evenflow.predict.training import Degrees, Sharding, Training
from evenflow.targets.frameworks.torchtitan.values import OLD
from evenflow.targets.refusal import refusal
from evenflow.targets.registry import all_targets, target_named
from evenflow.targets.training_baseline import read_training
from evenflow.tune.axes import Axis
from evenflow.tune.space import space_of
from tests.targets.frameworks.test_write_degrees import plan_of, planned
from tests.targets.questions import DENSE, MIXTURE, asked

RUN = "torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py {array}\n"
SHELLS = {
    "megatron": RUN,
    "mindspeed": "# mindspeed\n" + RUN,
    "ms-swift": "export NNODES=2\nexport NPROC_PER_NODE=8\nmegatron sft {array}\n",
    "verl": "python3 -m verl.trainer.main_ppo {array}\n",
}
ARRAYS = {"verl": "PIPELINE_ARGS"}
TEXTS = (
    "megatron-bridge", "primus", "flagscale", "torchtitan", "nemo-automodel", "mindformers", "mindformers-pynative",
    "deepspeed", "llama-factory", "roll",
)  # fmt: skip


def text_of(name, written, folder: Path) -> str:
    """A user's file with what was written; files beside it go into a folder."""
    text = written.pieces[0].text
    for piece in written.pieces[1:]:
        if piece.file_name:
            (folder / piece.file_name).write_text(piece.text)
    if name in SHELLS:
        array = ARRAYS.get(name, "PARALLEL_ARGS")
        return text + SHELLS[name].format(array=f'"${{{array}[@]}}"')
    if name == "primus":
        text = text.replace("  pre_trainer:\n", "  pre_trainer:\n    framework: megatron\n")
    return text


def settled(training: Training) -> Degrees:
    """Degrees without what makes no difference."""
    degrees = training.degrees
    return replace(
        degrees,
        sequence_parallel=degrees.sequence_parallel or degrees.tensor == 1,
        sharding=Sharding.NOTHING if degrees.data * degrees.context == 1 else degrees.sharding,
        expert_tensor=expert_tensor(training) if training.model.experts else None,
    )


@pytest.mark.parametrize("name", [*SHELLS, *TEXTS])
@pytest.mark.parametrize("model", [DENSE, MIXTURE], ids=["dense", "mixture"])
def test_what_is_written_reads_back(name, model, tmp_path):
    target = target_named(name)
    version = OLD if name == "torchtitan" else target.versions[-1]
    asks = asked(name, model, version=version)
    legal = space_of(asks).legal
    read = 0
    for number, training in enumerate(random.Random(3).sample(legal, min(len(legal), 60))):
        plan = plan_of(training)
        alone = training.degrees.pipeline == 1
        if not alone and refusal(plan, target.abilities(version), title=name):
            continue
        of_script = training.degrees.expert > 1 or expert_tensor(training) != training.degrees.tensor
        if name == "deepspeed" and (not alone or of_script):
            continue  # the cut and the experts are in the script
        folder = tmp_path / str(number)
        folder.mkdir()
        suffix = ".json" if name == "deepspeed" else ".toml" if name == "torchtitan" else ".yaml"
        file = folder / f"run{'.sh' if name in SHELLS else suffix}"
        written = target.write_degrees(plan, planned(training), version)
        text = text_of(name, written, folder)
        found = read_training(target, text, str(file), asks)
        assert settled(found.training) == settled(training)
        assert (found.training.microbatch, found.training.microbatches) == (training.microbatch, training.microbatches)
        assert found.plan.layers == plan.layers
        assert found.plan.recompute == {}
        assert found.unknown == ()
        read += 1
    assert read


SCRIPT = """\
torchrun --nproc_per_node 8 pretrain_gpt.py \\
    --num-layers 8 \\
    --tensor-model-parallel-size 2 \\
    --pipeline-model-parallel-size 2 \\
    --sequence-parallel \\
    --micro-batch-size 2 \\
    --global-batch-size 64 \\
    --seq-length 4096 \\
    --recompute-granularity full \\
    --recompute-method block \\
    --recompute-num-layers 1 \\
    --use-distributed-optimizer
"""


def eight(**kept):
    return asked("megatron", DENSE, devices=8, **kept)


def of_script(text=SCRIPT, question=None):
    return read_training(target_named("megatron"), text, "run.sh", question or eight())


def test_a_script_of_megatron():
    found = of_script()
    degrees = found.training.degrees
    assert (degrees.tensor, degrees.pipeline, degrees.data, degrees.context) == (2, 2, 2, 1)
    assert (degrees.sharding, degrees.sequence_parallel) == (Sharding.OPTIMIZER, True)
    assert (found.training.microbatch, found.training.microbatches) == (2, 16)
    assert found.plan == Plan(schedule="1f1b", num_microbatches=16, layers=((4, 4),), recompute={"full": ((1, 1),)})
    assert found.notes == ()


def test_what_the_file_does_not_say_is_decided_by_the_user_or_usual():
    text = SCRIPT.replace("    --micro-batch-size 2 \\\n", "")
    found = of_script(text, eight(**{Axis.MICROBATCH: 4}))
    assert found.training.microbatch == 4
    assert found.notes == ("microbatch is taken to be 4, which the file does not say",)
    bridge = "model:\n  pipeline_model_parallel_size: 2\n  tensor_model_parallel_size: 4\n"
    found = read_training(target_named("megatron-bridge"), bridge, "run.yaml", eight(**{Axis.ZERO: 0}))
    assert found.training.degrees.sharding is Sharding.NOTHING
    assert "context is taken to be 1, which the file does not say" in found.notes
    assert "zero is taken to be 0, which the file does not say" in found.notes


def test_fully_sharded_training_without_a_pipeline():
    text = "[training]\nlocal_batch_size = 2\nseq_len = 4096\nglobal_batch_size = 64\n[parallelism]\n"
    text += 'data_parallel_shard_degree = -1\ntensor_parallel_degree = 2\n[activation_checkpoint]\nmode = "full"\n'
    found = read_training(
        target_named("torchtitan"), text, "run.toml", asked("torchtitan", DENSE, version=OLD, devices=8)
    )
    degrees = found.training.degrees
    assert (degrees.pipeline, degrees.data, degrees.tensor) == (1, 4, 2)
    assert degrees.sharding is Sharding.PARAMETERS
    assert (found.training.microbatch, found.plan.num_microbatches) == (2, 8)
    assert found.plan.recompute == {"full": ((8,),)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--nproc_per_node 8", "--nproc_per_node 4"), "devices must be 8, as asked for, got 4"),
        (("--global-batch-size 64", "--global-batch-size 32"), "global_batch_size must be 64, as asked for, got 32"),
        (("--seq-length 4096", "--seq-length 2048"), "seq_length must be 4096, as asked for, got 2048"),
        (("--tensor-model-parallel-size 2", "--tensor-model-parallel-size 3"), "must divide the 8 devices, got 6"),
        (("--num-layers 8", "--num-layers 10"), "num_layers must give 8, as asked for, got 10"),
        (("--micro-batch-size 2", "--micro-batch-size 5"), "must be a multiple of data x microbatch"),
        (("--micro-batch-size 2", "--micro-batch-size 0"), "micro_batch_size must be an integer from 1"),
        (("--tensor-model-parallel-size 2", "--tensor-model-parallel-size $TP"), "tensor_model_parallel_size must be"),
        (("--sequence-parallel", "--context-parallel-size 99999999999"), "context_parallel_size must be an integer"),
        (
            ("--use-distributed-optimizer", "--use-megatron-fsdp --data-parallel-sharding-strategy all"),
            "data_parallel_sharding_strategy must be one of",
        ),
        (("--use-distributed-optimizer", "--cp-comm-type magic"), "cp_comm_type must be one of"),
        (("--pipeline-model-parallel-size 2", "--pipeline-model-parallel-size 4096"), "must"),
    ],
)
def test_spoiled_scripts(change, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        of_script(SCRIPT.replace(*change))


SPOILED = {
    "megatron-bridge": [
        "model: [1]\n",
        "model:\n  tensor_model_parallel_size: two\n  pipeline_model_parallel_size: 2\n",
    ],
    "primus": ["modules:\n  pre_trainer:\n    framework: megatron\n    overrides:\n      micro_batch_size: -1\n"],
    "flagscale": ["system:\n  pipeline_model_parallel_size: 2\n  tensor_model_parallel_size: 1.5\n"],
    "torchtitan": [
        "[parallelism]\ntensor_parallel_degree = 'x'\n",
        "[parallelism]\nfsdp_reshard_after_forward = 'sometimes'\n",
        "[training]\nlocal_batch_size = 0\n[parallelism]\ntensor_parallel_degree = 2\n",
        "[parallelism\n",
    ],
    "nemo-automodel": [
        "distributed:\n  pp_size: -1\n",
        "distributed:\n  strategy: magic\n",
        "distributed:\n  tp_size: {}\n",
        "distributed: 4\n",
    ],
    "mindformers": [
        "parallel_config:\n  model_parallel: many\n",
        "parallel:\n  enable_parallel_optimizer: 3\n",
        "parallel_config: [\n",
    ],
    "mindformers-pynative": [
        "parallelism:\n  tensor_parallel: 0\n",
        "parallelism:\n  reshard_after_forward_policy: 1\n",
    ],
    "deepspeed": [
        '{"zero_optimization": {"stage": 4}}',
        '{"zero_optimization": 3}',
        '{"train_micro_batch_size_per_gpu": "big"}',
        '{"zero_optimization": {"stage": true}}',
        "{",
    ],
    "paddle": ["tensor_parallel_degree: x\n", "pp_degree: 1\nsharding_degree: 0\n"],
    "verl": ["python3 -m verl actor_rollout_ref.actor.megatron.tensor_model_parallel_size=x\n"],
    "ms-swift": ["megatron sft --pipeline_model_parallel_size 2 --tensor_model_parallel_size -3\n"],
    "mindspeed": ["pretrain --pipeline-model-parallel-size 2 --tensor-model-parallel-size 0\n"],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in SPOILED.items() for text in texts])
def test_spoiled_files_are_one_message(name, text):
    file = {"deepspeed": "run.json", "torchtitan": "run.toml"}.get(name, "run.yaml")
    with pytest.raises(InputError) as caught:
        read_training(target_named(name), text, file, asked(name, DENSE, devices=8))
    assert "must" in str(caught.value) or "not" in str(caught.value)


@pytest.mark.parametrize("name", [name for name, target in all_targets().items() if target.read_degrees is None])
def test_frameworks_whose_files_do_not_tell(name):
    with pytest.raises(InputError, match="whose files say how a training is split"):
        read_training(target_named(name), "", "run.txt", asked(name, DENSE))
