"""Training scripts with a plan in them: what was changed, and that nothing else was."""

import difflib
import shlex
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.targets.frameworks.megatron.target import TARGET
from evenflow.targets.megatron_family import edit
from evenflow.targets.megatron_family.baseline import read_run
from evenflow.targets.target import GivenSizes
from tests.targets.megatron_family.plans import flag_plans
from tests.targets.megatron_family.test_baseline import PRINTED
from tests.thoroughness import examples

ARRAYS = """#!/bin/bash
PP=8  # ranks
ARGS=(
    --tensor-model-parallel-size 2
    --pipeline-model-parallel-size $PP
    --num-virtual-stages-per-pipeline-rank 2 # chunks
    --account-for-loss-in-pipeline-split
    --lr "1e-4"
    --recompute-granularity 'full'
    --recompute-method uniform
    --recompute-num-layers 1
)
torchrun pretrain_gpt.py "${ARGS[@]}" --bf16
"""
TEXT = """OPTIONS=" \\
    --pipeline-model-parallel-size 4 \\
    --recompute-activations \\
    --lr 1"
python pretrain_gpt.py ${OPTIONS} \\
  --seq-length 4096
"""
COMMAND = """torchrun pretrain_gpt.py --bf16 \\
    --recompute-granularity selective --recompute-modules core_attn mlp \\
    --pipeline-model-parallel-layout='Et|t|t|tL' \\
    --pipeline-model-parallel-size=4 \\
    --decoder-first-pipeline-num-layers 3
echo done
"""
ONE_LINE = "torchrun pretrain_gpt.py --bf16 --pipeline-model-parallel-size ${PP:-2} --lr 1 && echo done\n"
FLAGS_ALONE = "--bf16\r\n--pipeline-model-parallel-size 2\r\n--distribute-saved-activations\r\n--lr 1\r\n"
SCRIPTS = (ARRAYS, TEXT, COMMAND, ONE_LINE, FLAGS_ALONE)


def apply(text: str, plan: Plan) -> str:
    assert TARGET.apply is not None
    return TARGET.apply(text, "run.sh", plan)


def changed(old: str, new: str) -> list[str]:
    lines = difflib.ndiff(old.splitlines(), new.splitlines())
    return [line for line in lines if line[0] in "+-"]


UNEVEN = Plan(
    schedule="interleaved",
    num_microbatches=8,
    layers=((2, 3, 3, 3), (3, 3, 3, 2)),
    recompute={"full": ((1,) * 4, (1,) * 4)},
    group_size=8,
)
PLAIN = Plan(schedule="1f1b", num_microbatches=8, layers=((3, 4, 4, 3),))


def test_arrays() -> None:
    assert changed(ARRAYS, apply(ARRAYS, UNEVEN)) == [
        "- PP=8  # ranks",
        "+ PP=4  # ranks",
        "+     --pipeline-model-parallel-layout 'Ett|(t*3|)*6,ttL'",
        "+     --microbatch-group-size-per-virtual-pipeline-stage 8",
        "+     # chunks",
        "-     --num-virtual-stages-per-pipeline-rank 2 # chunks",
        "-     --account-for-loss-in-pipeline-split",
        "-     --recompute-method uniform",
        "+     --recompute-method block",
    ]


def test_a_text_of_several_words_gets_no_marks_that_a_shell_reads() -> None:
    assert changed(TEXT, apply(TEXT, PLAIN)) == [
        "+     --pipeline-model-parallel-layout Ettt|tttt|tttt|tttL \\",
        "-     --recompute-activations \\",
    ]


def test_a_command() -> None:
    assert changed(COMMAND, apply(COMMAND, PLAIN)) == [
        "-     --recompute-granularity selective --recompute-modules core_attn mlp \\",
        "-     --pipeline-model-parallel-layout='Et|t|t|tL' \\",
        "+     --pipeline-model-parallel-layout='Et*3|t*4|t*4|t*3L' \\",
        "-     --pipeline-model-parallel-size=4 \\",
        "+     --pipeline-model-parallel-size=4",
        "-     --decoder-first-pipeline-num-layers 3",
    ]


def test_one_line() -> None:
    assert apply(ONE_LINE, PLAIN) == (
        "torchrun pretrain_gpt.py --bf16 --pipeline-model-parallel-layout 'Et*3|t*4|t*4|t*3L' "
        "--pipeline-model-parallel-size ${PP:-4} --lr 1 && echo done\n"
    )


def test_flags_alone_keep_their_line_ends() -> None:
    assert apply(FLAGS_ALONE, PLAIN) == (
        "--bf16\r\n--pipeline-model-parallel-layout 'Et*3|t*4|t*4|t*3L'\r\n"
        "--pipeline-model-parallel-size 4\r\n--lr 1\r\n"
    )


@given(st.sampled_from(SCRIPTS), flag_plans())
def test_an_edited_script_reads_as_the_plan(script: str, plan: Plan) -> None:
    edited = apply(script, plan)
    found = read_run(edited, "run.sh", GivenSizes(num_microbatches=plan.num_microbatches))
    assert found.plan == plan
    assert apply(edited, plan) == edited
    for part in ("--bf16", "--lr", "--seq-length 4096", "echo done", "#!/bin/bash", "1e-4"):
        assert (part in script) == (part in edited)


READ_TWICE = {
    "a text": """PP=4
if [ -n "$WANDB" ]; then
  EXTRA="--wandb-project x"
fi
cmd="torchrun pretrain_gpt.py \\
  --pipeline-model-parallel-size $PP --bf16 \\
  --lr 1 $EXTRA"
eval $cmd
""",
    "a text in quotes": """PP=4
ARGS="--pipeline-model-parallel-size ${PP} --lr 1"
eval "torchrun pretrain_gpt.py $ARGS"
""",
    "a text in single quotes": """ARGS='--pipeline-model-parallel-size 4 --lr 1'
eval torchrun pretrain_gpt.py $ARGS
""",
    "an array": """ARGS=(
  --pipeline-model-parallel-size 4
  --lr 1
)
eval torchrun pretrain_gpt.py ${ARGS[@]}
""",
    "a shell": 'bash -c "torchrun pretrain_gpt.py --pipeline-model-parallel-size 4 --lr 1"\n',
    "a shell in single quotes": "bash -c 'true && torchrun run.py --pipeline-model-parallel-size 4 --lr 1'\n",
    "a layout": """cmd="torchrun x.py --pipeline-model-parallel-size 4 --lr 1 \\
  --pipeline-model-parallel-layout 'Et|t|t|tL'"
eval $cmd
""",
    "an escaped layout": """cmd="torchrun x.py --pipeline-model-parallel-size 4 --lr 1 \\
--pipeline-model-parallel-layout Et\\|t\\|t\\|tL"
eval $cmd
""",
    "a layout of its own": """L="'Et|t|t|tL'"
eval torchrun x.py --pipeline-model-parallel-size 4 --pipeline-model-parallel-layout $L --lr 1
""",
    "a command": "eval torchrun x.py --pipeline-model-parallel-size 4 --lr 1\n",
}


def words_of_bash(script: str) -> list[str]:
    """The words that a program gets from a script, which runs with a function in its place."""
    program = "torchrun() { printf '%s\\n' \"$@\"; }\nexport -f torchrun\n"
    return subprocess.run(["bash", "-c", program + script], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.processes
@pytest.mark.parametrize("name", READ_TWICE)
@given(plan=flag_plans())
@settings(max_examples=examples(15))
def test_a_script_that_is_read_twice_runs_as_the_plan(name: str, plan: Plan) -> None:
    edited = apply(READ_TWICE[name], plan)
    assert read_run(edited, "run.sh", GivenSizes(num_microbatches=plan.num_microbatches)).plan == plan
    assert apply(edited, plan) == edited
    words = words_of_bash(edited)
    alone = shlex.join(["run", *words])
    assert read_run(alone, "run.sh", GivenSizes(num_microbatches=plan.num_microbatches)).plan == plan
    assert words[words.index("--lr") + 1] == "1"


def test_what_is_read_three_times_is_left_to_the_user() -> None:
    with pytest.raises(InputError, match="cannot be edited"):
        apply('C="run --pipeline-model-parallel-size 4"\nbash -c "eval $C"', PLAIN)


def test_a_script_that_bash_refuses_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edit, "_bash_refuses", lambda script: "layout" in script)
    with pytest.raises(InputError, match="cannot be edited"):
        apply(ONE_LINE, PLAIN)


def test_a_variable_of_two_flags_is_not_changed() -> None:
    text = "N=2\nrun --pipeline-model-parallel-size $N --tensor-model-parallel-size $N\n"
    assert apply(text, PLAIN) == (
        "N=2\nrun --pipeline-model-parallel-layout 'Et*3|t*4|t*4|t*3L' "
        "--pipeline-model-parallel-size 4 --tensor-model-parallel-size $N\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "run --pipeline-model-parallel-size 2 --mtp-num-layers 2",
        "run --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Et*9|t*5mmL'",
    ],
)
def test_layers_of_multi_token_prediction_stay(text: str) -> None:
    assert "--pipeline-model-parallel-layout 'Et*3|t*4|t*4|t*3mmL'" in apply(text, PLAIN)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "run --num-layers 13 --pipeline-model-parallel-size 2",
            "run.sh, line 1: num_layers must be 14, as in the plan",
        ),
        ("run --num-layers 14", "run.sh must have the flag --pipeline-model-parallel-size"),
        (
            "run --pipeline-model-parallel-size 2 --micro-batch-size 1 --global-batch-size 8 --nproc_per_node 8",
            "run.sh, line 1: global_batch_size must give the 8 microbatches of the plan, got '4 microbatches'",
        ),
        (
            "A=(--pipeline-model-parallel-size 2)\nif x; then A+=(--recompute-method block); fi\nrun ${A[@]}",
            "run.sh: --recompute-method is set in a way that cannot be edited",
        ),
        (
            "if x; then A=(--pipeline-model-parallel-size 2); fi\nrun ${A[@]} --num-layers 14",
            "run.sh, line 1: pipeline_model_parallel_size must have a value that does not depend on a condition",
        ),
        ("run " + "--pipeline-model-parallel-size 2 " * 41, "run.sh: --pipeline-model-parallel-size, --pipeline-model"),
        (PRINTED, "run.sh must be a script: this is what a run printed"),
        ("echo", "run.sh must have flags of Megatron-LM"),
    ],
)
def test_scripts_that_cannot_be_edited(text: str, message: str) -> None:
    with pytest.raises(InputError) as raised:
        apply(text, replace(PLAIN))
    assert raised.value.message.startswith(message)


def test_a_script_whose_anchor_a_change_cuts_off_is_refused() -> None:
    text = (
        "GPT_ARGS=(\n    --micro-batch-size 1 --global-batch-size 4 \\\n    --hidden-size 64\n)\n"
        'LAYOUT="Ett|t|t|ttL"\n'
        "    --recompute-granularity full --recompute-method block --recompute-num-layers 1 \\\n"
        "torchrun --nproc_per_node 2 pretrain_gpt.py ${GPT_ARGS[@]} \\\n    --num-layers 6\n"
        '    --pipeline-model-parallel-layout "$LAYOUT" \\\n    --pipeline-model-parallel-size 2 \\'
    )
    with pytest.raises(InputError, match="--pipeline-model-parallel-size"):
        apply(text, Plan(schedule="1f1b", num_microbatches=4, layers=((4, 2),)))


@given(st.text(alphabet=" \n\\'\"$(){}|;&<>#-=*tEL01N", max_size=30), st.text(alphabet=" \n\\'\"$()|;&#", max_size=30))
def test_any_script_is_edited_or_refused(before: str, after: str) -> None:
    text = f"{before}run --pipeline-model-parallel-size 2 {after}"
    try:
        edited = apply(text, PLAIN)
    except InputError:
        return
    assert read_run(edited, "run.sh", GivenSizes(num_microbatches=8)).plan == PLAIN
