"""What a script has from outside: variables, words behind its name, and files that it sources, as bash has them."""

import shutil
import subprocess

import pytest

from evenflow.errors import InputError
from evenflow.targets.megatron_family.shell_arguments import training_words
from evenflow.targets.megatron_family.shell_inputs import ScriptInputs, given_to_scripts

pytestmark = pytest.mark.processes

TRAIN = "python pretrain_gpt.py --num-layers 8 "


def read(folder, script, *, values=None, words=None, **files):
    """Return the words of the training command, and what the script had from outside."""
    for name, text in files.items():
        (folder / f"{name}.sh").write_text(text)
    path = folder / "run.sh"
    path.write_text(script)
    inputs = ScriptInputs(values=values or {}, words=words)
    with given_to_scripts(inputs):
        return [word.text for word in training_words(script, file=str(path))], inputs


SCRIPTS = {
    "a default": ("PP=${PP:-2}\n" + TRAIN + "--pp $PP", {"PP": "4"}, ()),
    "no default": (TRAIN + "--pp $PP", {"PP": "4"}, ()),
    "a list": (TRAIN + "$MORE", {"MORE": "--pp 4 --tp 2"}, ()),
    "set by the script": ("PP=2\n" + TRAIN + "--pp $PP --a $A", {"PP": "4", "A": "1"}, ()),
    "a test": ('if [ -z "$PP" ]; then PP=2; fi\n' + TRAIN + "--pp $PP", {"PP": "4"}, ()),
    "words": (TRAIN + "--pp $1 --tp ${2:-7} --n $# --all $@", {}, ("4", "2", "x")),
    "fewer words": (TRAIN + "--pp ${1} --tp ${2:-7} --n $#", {}, ("4",)),
    "shifted": ("PP=$1; shift\n" + TRAIN + '--pp $PP "$@"', {}, ("4", "--a b", "c")),
    "shifted by two": ("shift 2\n" + TRAIN + "--pp $1", {}, ("4", "3", "2")),
    "set anew": ('set -- 5 "$@"\n' + TRAIN + "--pp $1 --tp $2", {}, ("4",)),
    "a test of a word": ('if [ -z "$2" ]; then PP=2; else PP=$2; fi\n' + TRAIN + "--pp $PP", {}, ("4",)),
    "sourced": ('source "$(dirname "$0")/more.sh"\n' + TRAIN + "--pp $PP $ARGS", {"TP": "3"}, ()),
    "sourced where it is": ("DIR=$(cd $(dirname $0) && pwd)\n. $DIR/more.sh\n" + TRAIN + "--pp $PP", {"TP": "3"}, ()),
    "sourced if it is there": (
        'D=$(dirname "$0")\nif [ -f $D/more.sh ]; then . $D/more.sh; fi\n' + TRAIN + "--pp $PP",
        {"TP": "3"},
        (),
    ),
    "sourced in turn": ('. "$(dirname "$0")/next.sh"\n' + TRAIN + "--pp $PP", {"TP": "3"}, ()),
}
FILES = {"more": 'PP=4\nARGS="--tp $TP --x y"\n', "next": '. "$(dirname "$0")/more.sh"\nPP=$((PP * 2))\n'}


@pytest.mark.parametrize(("script", "values", "words"), SCRIPTS.values(), ids=SCRIPTS)
def test_words_are_those_that_bash_has(tmp_path, script, values, words):
    found, _inputs = read(tmp_path, script, values=values, words=words, **FILES)
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    (tmp_path / "python").write_text('#!/bin/bash\nfor word in python "$@"; do echo "$word"; done\n')
    (tmp_path / "python").chmod(0o755)
    ran = subprocess.run(
        [bash, str(tmp_path / "run.sh"), *words], env={"PATH": f"{tmp_path}:/usr/bin:/bin", **values}, text=True,
        capture_output=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    assert found == ran.stdout.splitlines()


def test_what_no_script_reads_is_refused(tmp_path):
    _found, inputs = read(tmp_path, "PP=2\n" + TRAIN + "--pp $PP", values={"PP": "4"})
    with pytest.raises(InputError, match="a variable that the script reads before it sets it, got 'PP'"):
        inputs.check_read()
    _found, inputs = read(tmp_path, TRAIN + "--pp 2", words=("4",))
    with pytest.raises(InputError, match="words that the script reads"):
        inputs.check_read()


def test_words_of_functions_are_not_those_of_the_script(tmp_path):
    with pytest.raises(InputError, match="a script without functions"):
        read(tmp_path, "main() {\n" + TRAIN + "--pp $1\n}\nmain 3", words=("4",))


@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("source nothing.sh\n", "nothing.sh"),
        ("source $UNKNOWN/a.sh\n", "$UNKNOWN/a.sh"),
        ("if grep -q x y; then source more.sh; fi\n", "more.sh"),
        ("source around.sh\n", "around.sh"),
        ("source run.sh\n", "run.sh"),
        ("source .\n", "."),
        ("source large.sh\n", "large.sh"),
    ],
)
def test_files_that_cannot_be_read_are_told(tmp_path, script, name):
    around = {"around": "source around.sh\n", "large": "A=1\n" * 100_000}
    found, inputs = read(tmp_path, script + TRAIN + "--pp $PP", **FILES, **around)
    assert name in inputs.missing
    assert found[-1] in ("$PP", "4")
