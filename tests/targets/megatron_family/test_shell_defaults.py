"""Sizes that a script gets from a default, from the words of an array, or from nowhere."""

import pytest

from evenflow.errors import InputError
from evenflow.targets.megatron_family.baseline import read_run
from evenflow.targets.megatron_family.shell_arguments import shell_arguments
from evenflow.targets.target import GivenSizes

FLAGS = "--num-layers 12 --pipeline-model-parallel-size $PP"
SIZES = GivenSizes(num_microbatches=8)


@pytest.mark.parametrize("test", ['[ -z "$PP" ]', "[ -z ${PP} ]", "[[ -z $PP ]]", '[ ! -n "$PP" ]'])
def test_a_default_behind_a_test_holds_as_one_in_braces_does(test: str) -> None:
    script = f"if {test}; then\n    PP=4\nfi\ntorchrun run.py {FLAGS}\n"
    assert read_run(script, "run.sh", SIZES).plan.num_ranks == 4
    assert read_run(f"PP=2\n{script}", "run.sh", SIZES).plan.num_ranks == 2


def test_an_argument_of_the_script_is_not_taken_for_empty() -> None:
    script = f"PP=$1\nif [ -z $PP ]; then\n    PP=4\nfi\ntorchrun run.py {FLAGS}\n"
    with pytest.raises(InputError, match=r"got '\$PP'"):
        read_run(script, "run.sh", SIZES)


def test_the_number_of_words_of_an_array() -> None:
    command = "torchrun --nnodes ${#IPS[@]} run.py --num-layers 2\n"
    assert shell_arguments(f"IPS=(a b c)\nIPS+=(d)\n{command}", file="run.sh").values["nnodes"] == 4
    assert shell_arguments(f"IPS=($(hosts) b)\n{command}", file="run.sh").values["nnodes"] == "${#IPS[@]}"


def test_messages_show_the_variable() -> None:
    script = f'ARGS="{FLAGS}"\ntorchrun run.py $ARGS\n'
    with pytest.raises(InputError, match=r"got '\$PP'; write its value in place of the variable"):
        read_run(script, "run.sh", SIZES)
