"""Scripts with overrides of a Hydra configuration and a plan in them: what was changed, and that nothing else was."""

import difflib
import subprocess

import pytest
from hypothesis import given, settings

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.targets.registry import target_named
from evenflow.targets.target import GivenSizes
from tests.targets.megatron_family.plans import flag_plans
from tests.targets.strategies import canonical
from tests.thoroughness import examples

ACTOR, REFERENCE = "actor_rollout_ref.actor.megatron", "actor_rollout_ref.ref.megatron"
CONFIG = f"{ACTOR}.override_transformer_config"
ARRAY = f"""\
PP=4
ACTOR=(
    actor_rollout_ref.actor.optim.lr=1e-6
    {ACTOR}.pipeline_model_parallel_size=${{PP}}
    {REFERENCE}.pipeline_model_parallel_size=${{PP}}  # the same
    +{CONFIG}.recompute_granularity=full
    ++{CONFIG}.recompute_method=uniform
    +{CONFIG}.recompute_num_layers=1
)
python3 -m verl.trainer.main_ppo "${{ACTOR[@]}}" trainer.nnodes=2
"""
COMMAND = f"""\
python3 -m verl.trainer.main_ppo \\
    {ACTOR}.pipeline_model_parallel_size=4 \\
    {ACTOR}.virtual_pipeline_model_parallel_size=2 \\
    "++{CONFIG}.pipeline_model_parallel_layout='Et|(t*4|)*6,tL'" \\
    +{CONFIG}.account_for_loss_in_pipeline_split=True \\
    trainer.nnodes=2 $@
"""
ON_ASCEND = f"""\
CONFIG={CONFIG}
python3 -m verl.trainer.main_ppo \\
    {ACTOR}.pipeline_model_parallel_size=4 \\
    +$CONFIG.pipeline_num_transformer_layers="[[11],[13]*2,[11]]" \\
    +$CONFIG.num_layers_in_first_pipeline_stage=11
"""
TEXT = """\
PP=4
OVERRIDES="model.tensor_model_parallel_size=2 model.pipeline_model_parallel_size=$PP model.recompute_granularity=full"
torchrun run.py --recipe llama3 $OVERRIDES ++model.account_for_loss_in_pipeline_split=True
"""
READ_TWICE = """\
cmd="torchrun run.py --recipe llama3 model.tensor_model_parallel_size=2 model.pipeline_model_parallel_size=4"
eval $cmd
"""
WHOLE = 'eval "torchrun run.py model.recompute_num_layers=3 model.pipeline_model_parallel_size=4"\n'
SCRIPTS = {
    "array": ("verl", ARRAY),
    "command": ("verl", COMMAND),
    "on Ascend": ("verl", ON_ASCEND),
    "text": ("megatron-bridge", TEXT),
    "read twice": ("megatron-bridge", READ_TWICE),
    "whole command": ("megatron-bridge", WHOLE),
}
PLAIN = Plan(schedule="1f1b", num_microbatches=8, layers=((4, 5),))
CHUNKED = Plan(
    schedule="interleaved", num_microbatches=8, layers=((2, 1), (3, 3)), recompute={"full": ((2, 1), (2, 2))}
)


def apply(name: str, text: str, plan: Plan) -> str:
    edit = target_named(name).apply
    assert edit is not None
    return edit(text, "run.sh", plan)


def changed(old: str, new: str) -> list[str]:
    return [line for line in difflib.ndiff(old.splitlines(), new.splitlines()) if line[0] in "+-"]


def test_a_variable_that_actor_and_reference_share_is_changed_where_it_is_set() -> None:
    assert changed(ARRAY, apply("verl", ARRAY, PLAIN)) == [
        "- PP=4",
        "+ PP=2",
        f"+     \"++{CONFIG}.pipeline_model_parallel_layout='Et*4|t*5L'\"",
        f"-     +{CONFIG}.recompute_granularity=full",
        f"+     +{CONFIG}.recompute_granularity=null",
        f"-     ++{CONFIG}.recompute_method=uniform",
        f"+     ++{CONFIG}.recompute_method=null",
        f"-     +{CONFIG}.recompute_num_layers=1",
        f"+     +{CONFIG}.recompute_num_layers=null",
    ]


def test_a_variable_that_something_else_has_too_is_replaced_where_it_is_used() -> None:
    script = ARRAY.replace("trainer.nnodes=2", "rollout.tensor_model_parallel_size=$PP")
    edited = apply("verl", script, PLAIN)
    assert "PP=4\n" in edited
    assert f"    {ACTOR}.pipeline_model_parallel_size=2\n" in edited
    assert f"    {REFERENCE}.pipeline_model_parallel_size=2  # the same\n" in edited


def test_a_reference_with_a_layout_of_its_own_stays() -> None:
    own = f"\"+{REFERENCE}.override_transformer_config.pipeline_model_parallel_layout='Ett|t|t|tL'\""
    edited = apply("verl", ARRAY.replace("trainer.nnodes=2", own), PLAIN)
    assert own in edited
    assert f"{REFERENCE}.pipeline_model_parallel_size=${{PP}}" in edited
    assert "PP=4\n" in edited


def test_a_command() -> None:
    assert changed(COMMAND, apply("verl", COMMAND, CHUNKED)) == [
        f"+     ++{CONFIG}.recompute_granularity=full \\",
        f"+     ++{CONFIG}.recompute_method=block \\",
        f"+     ++{CONFIG}.recompute_num_layers=2 \\",
        f"-     {ACTOR}.pipeline_model_parallel_size=4 \\",
        f"+     {ACTOR}.pipeline_model_parallel_size=2 \\",
        f"-     \"++{CONFIG}.pipeline_model_parallel_layout='Et|(t*4|)*6,tL'\" \\",
        f"+     \"++{CONFIG}.pipeline_model_parallel_layout='Ett|t|t*3|t*3L'\" \\",
        f"-     +{CONFIG}.account_for_loss_in_pipeline_split=True \\",
        f"+     +{CONFIG}.account_for_loss_in_pipeline_split=false \\",
    ]


def test_a_matrix_of_mindspeed_stays_a_matrix() -> None:
    edited = apply("verl", ON_ASCEND, CHUNKED)
    assert f'"+{CONFIG}.pipeline_num_transformer_layers=[[2,3],[1,3]]" \\\n' in edited
    assert f"+{CONFIG}.num_layers_in_first_pipeline_stage=null\n" in edited
    assert "layout" not in edited


def test_a_text_of_several_words_gets_no_quotation_marks() -> None:
    assert changed(TEXT, apply("megatron-bridge", TEXT, PLAIN))[3] == (
        '+ OVERRIDES="model.tensor_model_parallel_size=2 model.pipeline_model_parallel_layout=Etttt|tttttL '
        "model.microbatch_group_size_per_vp_stage=null model.virtual_pipeline_model_parallel_size=null "
        "model.recompute_method=null model.recompute_num_layers=null model.pipeline_model_parallel_size=$PP "
        'model.recompute_granularity=null"'
    )


@pytest.mark.parametrize("script", SCRIPTS)
@given(plan=flag_plans().filter(lambda plan: plan.num_ranks > 1))
@settings(max_examples=examples(40))
def test_an_edited_script_reads_as_the_plan(script: str, plan: Plan) -> None:
    name, text = SCRIPTS[script]
    edited = apply(name, text, plan)
    read = target_named(name).read
    assert read is not None
    found = read(edited, "run.sh", GivenSizes(num_microbatches=plan.num_microbatches))
    assert canonical(found.plan) == canonical(plan)
    assert apply(name, edited, plan) == edited
    for part in ("lr=1e-6", "trainer.nnodes=2", "tensor_model_parallel_size=2", "--recipe llama3", "eval", "$@"):
        assert (part in text) == (part in edited)


@pytest.mark.processes
@pytest.mark.parametrize("script", SCRIPTS)
def test_bash_hands_on_what_hydra_reads(script: str) -> None:
    name, text = SCRIPTS[script]
    program = 'show() { printf \'%s\\n\' "$@"; }; torchrun() { show "$@"; }; python3() { show "$@"; }\n'
    run = subprocess.run(
        ["bash", "-c", program + apply(name, text, CHUNKED)], capture_output=True, text=True, check=True
    )
    told = dict(word.rpartition(".")[2].split("=", 1) for word in run.stdout.splitlines() if "=" in word)
    assert told["pipeline_model_parallel_size"] == "2"
    assert told["recompute_num_layers"] == "2"
    if script == "on Ascend":
        assert told["pipeline_num_transformer_layers"] == "[[2,3],[1,3]]"
    else:
        assert told["pipeline_model_parallel_layout"] in ("'Ett|t|t*3|t*3L'", "Ett|t|ttt|tttL")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "megatron-bridge",
            TEXT.replace("$PP ", "$PP model.num_layers=8 "),
            "num_layers must be 9, as in the plan, got 8",
        ),
        (
            "megatron-bridge",
            "torchrun run.py model.virtual_pipeline_model_parallel_size=2\n",
            "run.sh must have the override model.pipeline_model_parallel_size",
        ),
        ("verl", f"python3 a.py {ACTOR}.x=1\n", f"must have the override {ACTOR}.pipeline_model_parallel_size"),
        (
            "megatron-bridge",
            "if [ -f x ]; then A=(--x model.pipeline_model_parallel_size=4); fi\ntorchrun run.py ${A[@]}\n",
            "must have a value that does not depend on a condition",
        ),
        (
            "verl",
            f"python3 a.py {ACTOR}.pipeline_model_parallel_size=2 actor_rollout_ref.actor.ppo_mini_batch_size=8 "
            "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 trainer.n_gpus_per_node=4\n",
            "must give the 8 microbatches of the plan, got '4 microbatches'",
        ),
    ],
)
def test_what_cannot_be_edited_has_one_message(name: str, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        apply(name, text, PLAIN)
