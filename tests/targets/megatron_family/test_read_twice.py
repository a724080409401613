"""Scripts whose command the shell reads twice, behind `eval` or `bash -c`: what bash itself makes of an edited one."""

import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.targets.frameworks.megatron.target import TARGET
from evenflow.targets.megatron_family.baseline import read_run
from evenflow.targets.megatron_family.layout import parse_layout
from evenflow.targets.target import GivenSizes
from tests.targets.megatron_family.plans import flag_plans
from tests.thoroughness import examples

pytestmark = [pytest.mark.processes, pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")]

PRINTING = "torchrun() { printf '%s\\n' \"$@\"; }; export -f torchrun\n"
LAYOUT = "--pipeline-model-parallel-layout"
FLAGS = "--num-layers 12 --pipeline-model-parallel-size 4 --lr 1"
ESCAPED = r"Ettt\|ttt\|ttt\|tttL"
QUOTED = "'Ettt|ttt|ttt|tttL'"
EVALUATED = f"""ARGS="{FLAGS}"
EXTRA=""
if [ -f more.sh ]; then
    EXTRA="--bf16"
fi
cmd="torchrun pretrain_gpt.py $ARGS $EXTRA"
eval $cmd
"""
SCRIPTS = (
    EVALUATED,
    EVALUATED.replace("eval $cmd", 'eval "$cmd"'),
    EVALUATED.replace("eval $cmd", 'bash -c "$cmd"'),
    f"ARGS='{FLAGS}'\neval torchrun pretrain_gpt.py $ARGS\n",
    "ARGS=(\n    --num-layers 12\n    --pipeline-model-parallel-size 4\n)\neval torchrun run.py ${ARGS[@]}\n",
    f'bash -c "torchrun pretrain_gpt.py {FLAGS}"\n',
    f"bash -c 'torchrun pretrain_gpt.py {FLAGS}'\n",
    f'LAYOUT="{QUOTED}"\neval torchrun run.py {LAYOUT} $LAYOUT {FLAGS}\n',
    f'cmd="torchrun run.py {LAYOUT} {QUOTED} {FLAGS}"\neval $cmd\n',
    f'cmd="torchrun run.py {LAYOUT} {ESCAPED} {FLAGS}"\neval $cmd\n',
    f'eval "torchrun run.py {LAYOUT}={ESCAPED} {FLAGS}"\n',
    f"torchrun run.py {FLAGS}\n",
    "PP=4\nLR='--lr 1'\neval 'torchrun run.py --num-layers 12 --pipeline-model-parallel-size $PP $LR'\n",
    "A=(--num-layers 12 --pipeline-model-parallel-size 4)\neval 'eval torchrun run.py ${A[@]}'\n",
)
CONDITIONAL = """ARGS="--num-layers 12"
if [ -f more.sh ]; then
    ARGS="$ARGS --pipeline-model-parallel-size 4"
fi
cmd="torchrun pretrain_gpt.py $ARGS"
"""


def words_in_bash(script: str) -> list[str]:
    """Return the arguments of the training command, as bash hands them on."""
    run = subprocess.run(["bash", "-c", PRINTING + script], capture_output=True, text=True, check=True)
    assert not run.stderr
    return run.stdout.splitlines()


@pytest.mark.parametrize("script", SCRIPTS)
@given(plan=flag_plans())
@settings(max_examples=examples(5))
def test_bash_runs_the_edited_script_with_the_layout(script: str, plan: Plan) -> None:
    assert TARGET.apply is not None
    script = script.replace("--num-layers 12", f"--num-layers {plan.num_layers}")
    edited = TARGET.apply(script, "run.sh", plan)
    words = [part for word in words_in_bash(edited) for part in word.split("=", maxsplit=1)]
    layout = parse_layout(words[words.index(LAYOUT) + 1], place="")
    assert layout.cells(plan.num_ranks, place="") == plan.layers
    assert ("--lr" in words) == ("--lr" in script)
    assert read_run(edited, "run.sh", GivenSizes(num_microbatches=plan.num_microbatches)).plan.layers == plan.layers


@pytest.mark.parametrize("command", ["eval $cmd", 'eval "$cmd"', 'bash -c "$cmd"', "$cmd"])
def test_a_word_in_a_condition_leaves_the_other_flags_known(command: str) -> None:
    script = EVALUATED.replace("eval $cmd", command)
    found = read_run(script, "run.sh", GivenSizes(num_microbatches=8))
    assert found.plan.num_ranks == 4


@pytest.mark.parametrize("command", ["eval $cmd", 'bash -c "$cmd"', "$cmd"])
def test_ranks_that_a_condition_decides_are_refused(command: str) -> None:
    script = CONDITIONAL + command
    with pytest.raises(InputError, match="does not depend on a condition, got '--pipeline-model-parallel-size 4'"):
        read_run(script, "run.sh", GivenSizes(num_microbatches=8))
    given_ranks = GivenSizes(num_ranks=2, num_microbatches=8)
    assert read_run(script, "run.sh", given_ranks).plan.num_ranks == 2
    assert TARGET.apply is not None
    with pytest.raises(InputError, match="does not depend on a condition"):
        TARGET.apply(script, "run.sh", Plan(schedule="1f1b", num_microbatches=8, layers=((6, 6),)))


@given(blanks=st.text(" \t", min_size=1, max_size=3))
@settings(max_examples=examples(10))
def test_texts_are_read_three_times(blanks: str) -> None:
    script = f"cmd='torchrun run.py {FLAGS}'\neval{blanks}eval{blanks}$cmd\n"
    assert read_run(script, "run.sh", GivenSizes(num_microbatches=8)).plan.num_ranks == 4


@pytest.mark.parametrize("value", [ESCAPED, QUOTED])
def test_a_layout_behind_eval_is_read(value: str) -> None:
    script = f'cmd="torchrun run.py {LAYOUT} {value} {FLAGS}"\neval $cmd\n'
    assert read_run(script, "run.sh", GivenSizes(num_microbatches=8)).plan.layers == ((3, 3, 3, 3),)


def test_a_text_that_sets_variables_itself_is_read_and_not_edited() -> None:
    script = """bash -c 'A="--num-layers 12 --pipeline-model-parallel-size 4"; torchrun run.py $A'\n"""
    assert read_run(script, "run.sh", GivenSizes(num_microbatches=8)).plan.num_ranks == 4
    assert TARGET.apply is not None
    with pytest.raises(InputError, match="in a way that cannot be edited"):
        TARGET.apply(script, "run.sh", Plan(schedule="1f1b", num_microbatches=8, layers=((2, 4, 4, 2),)))
