"""Microbatches of verl, from the mini batch, the answers to each prompt and the data parallel size."""

import pytest

from evenflow.errors import InputError
from evenflow.targets.frameworks.verl.target import TARGET
from evenflow.targets.target import Baseline, GivenSizes

ACTOR = "actor_rollout_ref.actor"
SCRIPT = f"""N=4
python3 -m verl.trainer.main_ppo \\
    {ACTOR}.megatron.pipeline_model_parallel_size=2 {ACTOR}.megatron.tensor_model_parallel_size=2 \\
    {ACTOR}.ppo_mini_batch_size=64 {ACTOR}.ppo_micro_batch_size_per_gpu=2 \\
    actor_rollout_ref.rollout.n=$N trainer.nnodes=2 trainer.n_gpus_per_node=8
"""


def read(text: str, num_microbatches: int | None = None) -> Baseline:
    assert TARGET.read is not None
    return TARGET.read(text, "run.sh", GivenSizes(num_layers=8, num_microbatches=num_microbatches))


def test_the_script_tells_them() -> None:
    assert read(SCRIPT).plan.num_microbatches == 64 * 4 // (16 // (2 * 2)) // 2


def test_what_verl_has_by_itself() -> None:
    text = SCRIPT.replace("actor_rollout_ref.rollout.n=$N trainer.nnodes=2 trainer.n_gpus_per_node=8", "x=1")
    assert read(text).plan.num_microbatches == 64 // (8 // (2 * 2)) // 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("trainer.nnodes=2", "trainer.nnodes=$NODES"),
        ("N=4", ""),
        (f"{ACTOR}.ppo_mini_batch_size=64", f"{ACTOR}.use_dynamic_bsz=True {ACTOR}.ppo_mini_batch_size=64"),
        (f"{ACTOR}.ppo_micro_batch_size_per_gpu=2", ""),
    ],
)
def test_what_it_does_not_tell_is_asked_for(old: str, new: str) -> None:
    text = SCRIPT.replace(old, new, 1)
    with pytest.raises(InputError, match="must be given, for the number of microbatches"):
        read(text)
    assert read(text, 12).plan.num_microbatches == 12


def test_answers_that_a_condition_decides_are_asked_for() -> None:
    text = SCRIPT.replace("actor_rollout_ref.rollout.n=$N", "${A[@]}")
    text = text.replace("N=4", "if [ -f x ]; then A=(--x actor_rollout_ref.rollout.n=8); fi")
    with pytest.raises(InputError, match="must be given, for the number of microbatches"):
        read(text)


def test_another_number_than_asked_for() -> None:
    with pytest.raises(InputError, match="must give 12, as asked for, got 32"):
        read(SCRIPT, 12)


def test_a_batch_that_does_not_divide() -> None:
    with pytest.raises(InputError):
        read(SCRIPT.replace("ppo_mini_batch_size=64", "ppo_mini_batch_size=63").replace("N=4", "N=1"))
