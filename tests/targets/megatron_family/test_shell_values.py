"""Shell scripts: words, variables and conditions, as far as the text tells them."""

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.targets.megatron_family.shell_arithmetic import arithmetic
from evenflow.targets.megatron_family.shell_script import parse_script
from evenflow.targets.megatron_family.shell_values import run_through


def commands(text: str) -> list[list[str]]:
    found, _values = run_through(parse_script(text, file="run.sh"), text, file="run.sh")
    return [[word.text for word in command] for command in found]


SCRIPTS = [
    "run a  b\\\n c # d",
    'run \'a b\' "c d" e\\ f "g\\"h\\n" \'\'',
    'A=1 B="x y"\nrun $A $B "$B" ${A}2 "$A$A" pre$B',
    'A=(1 \'x y\' # no\n 3)\nA+=(4)\nrun ${A[@]} "${A[@]}" p"${A[@]}"s',
    "A=(--x 'y z')\nB=\"run ${A[*]} -1\"\n$B",
    'run ${UNSET_X:-4} ${UNSET_X:-"a b"} ${UNSET_X-}',
    "A=3; B=$((A*4 + 2 % 3 - (1+1))); run $B",
    "run a > out.txt 2>&1; run b | run c && run d",
    "run <<EOF\nrun no\nEOF\nrun yes",
    "export A=5\ndeclare -a L=(1 2)\nrun $A ${L[@]}",
    'A=a\nA+=b\nA="$A c"\nrun $A',
    "run a\r\n",
    "E=\nrun $E \"$E\" ''",
    "run() { run_inner x; }\nrun y",
    "A=4\nif [ $A -gt 1 ]; then run a; B=1; else run b; B=2; fi\nrun $B",
    'A=1\nif [[ "${A}" -gt 1 ]]; then run a; elif [ $A -eq 1 ]; then run b; else run c; fi',
    'A=x\nif [ "$A" = y ]; then run a; elif [[ $A != x ]]; then run b; else run c; fi',
    'A=\nif [ -z "$A" ]; then\n  if ! [ x == x ]; then run a; else run b; fi\nfi\n[[ -n $A ]] && run c',
    "A=2\n[ $A -ge 2 ] && run a\n[ $A -lt 2 ] && run c\n[ ! $A -lt 2 ] && [ $A -ne 3 ] && run d",
    "A=(--x)\nif [ 2 -gt 1 ]; then A+=(--y); fi\nrun ${A[@]}",
    'A=4\nC="run --x $A \'b c\' \\"d e\\" f\\|g"\neval $C\neval "$C"\neval run "\'a b\'" \'c\\ d\'',
    'A=(run --x "\'a|b\'" 2)\neval ${A[@]}\neval "${A[*]}" 3',
    "bash -c \"run a 'b c'\"\nenv bash -c 'run d && run \"e f\"' name",
    "C='run \"a|(b)\"'\nbash -lc \"eval '$C'\"",
    "C='B=3; run $B'\neval \"$C\"",
]


@pytest.mark.processes
@pytest.mark.parametrize("script", SCRIPTS)
def test_words_are_those_of_a_shell(script: str) -> None:
    """A function that prints its words stands for the program."""
    words = [word for command in commands(script) if command[0] == "run" for word in [*command[1:], "END"]]
    if script.startswith("run()"):
        assert words == ["END", "y", "END"]
        return
    body = 'run() { for word in "$@"; do printf "%s\\0" "$word" >&3; done; printf "END\\0" >&3; }\n'
    process = subprocess.run(
        [
            "bash",
            "-c",
            f"exec 3>&1\ncd /tmp\n{body}export -f run\n{script.replace(chr(13), '').replace('out.txt', '/dev/null')}",
        ],
        capture_output=True,
        check=False,
    )
    assert sorted(process.stdout.decode().split("\0")[:-1]) == sorted(words)


def test_only_what_stands_in_a_condition_is_conditional() -> None:
    text = 'if x; then E="--y 1"; fi\nC="run --x 2 $E --z 3"\neval $C'
    (command,) = [words for words in run_through(parse_script(text, file=""), text, file="")[0] if len(words) > 1]
    assert [(word.text, word.is_conditional) for word in command] == [
        ("run", False), ("--x", False), ("2", False), ("--y", True), ("1", True), ("--z", False), ("3", False)
    ]  # fmt: skip


def test_a_value_that_only_a_run_knows_is_not_the_same_in_a_condition() -> None:
    """Both values are unknown: that does not make them equal."""
    text = 'E="--x $U"\nif y; then E="$E --z 3"; fi\nrun $E'
    (command,) = [words for words in run_through(parse_script(text, file=""), text, file="")[0] if len(words) > 1]
    assert [(word.text, word.is_conditional) for word in command] == [
        ("run", False), ("--x", False), ("$U", False), ("--z", True), ("3", True)
    ]  # fmt: skip


@given(st.lists(st.text(alphabet="ab '\"\\$`#|*()-=\n\t", max_size=6), min_size=1, max_size=4))
def test_quoted_words_come_back(words: list[str]) -> None:
    text = shlex.join(["run", *words])
    assert commands(text) == [["run", *words]]
    assert commands(f'A=(run {shlex.join(words)})\n"${{A[@]}}"') == [["run", *words]]


def test_every_known_word_tells_where_it_is() -> None:
    text = "N=24\nA=(--layers $N 'x|y')\nrun ${A[@]}"
    found, _values = run_through(parse_script(text, file="run.sh"), text, file="run.sh")
    assert [text[word.start : word.end] for word in found[0]] == ["run", "--layers", "$N", "'x|y'"]
    assert [text[word.marks[0].spot : word.marks[-1].spot + 1] for word in found[0]] == ["run", "--layers", "24", "x|y"]


@pytest.mark.parametrize("value", ["$1", "$X", "${X#a}", "$(date)", "`date`", "$((Y*2))", "${X:?no}", "$@"])
def test_what_only_a_run_knows_stays_as_it_is(value: str) -> None:
    text = f"run {value} --b"
    found, _values = run_through(parse_script(text, file="run.sh"), text, file="run.sh")
    assert [(word.text, word.is_known) for word in found[0]] == [("run", True), (value, False), ("--b", True)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A=1\nif x; then A=2; fi\nrun $A", [("$A", False, False)]),
        ("A=2\nif x; then A=2; fi\nrun $A", [("2", True, False)]),
        ("[ x ] && A=2\nrun $A", [("$A", False, False)]),
        ("for A in 1 2; do run $A; done", [("$A", False, False)]),
        (
            "A=(--a 1)\nif x; then A+=(--b); fi\nrun ${A[@]}",
            [("--a", True, False), ("1", True, False), ("--b", True, True)],
        ),
        ('A="--a"\nif x; then A="$A --b"; fi\nrun $A', [("--a", True, False), ("--b", True, True)]),
        ('A="--a"\nif x; then A+=" --b"; fi\nrun $A', [("--a", True, False), ("--b", True, True)]),
        (
            'if x; then A="--a 1"; else A="--b"; fi\nrun $A',
            [("--a", True, True), ("1", True, True), ("--b", True, True)],
        ),
        ("A=1\n[ 1 -gt 0 ] || x && A=2\nrun $A", [("$A", False, False)]),
        ("A=1\n[ 1 -gt 0 ] && x && A=2\nrun $A", [("$A", False, False)]),
        ("A=1\n[ 1 -gt 0 ] || A=2\nrun $A", [("1", True, False)]),
        ("if [[ $A -gt 1 && b ]]; then A=3; fi\nrun $A", [("$A", False, False)]),
        ("A=1\nif [[ a < b ]]; then A=3; fi\nrun $A", [("$A", False, False)]),
        ("A=1\nif [[ b == a* ]]; then A=3; fi\nrun $A", [("$A", False, False)]),
        ("A=1\nif [ $B -gt 1 ]; then A=3; else A=4; fi\nrun $A", [("$A", False, False)]),
        ("A=1\nwhile [ 1 -gt 0 ]; do A=3; done\nrun $A", [("$A", False, False)]),
        ("case $x in\n a) A=3 ;;\nesac\nA=4\nrun $A", [("4", True, False)]),
    ],
)
def test_conditions(text: str, words: list[tuple[str, bool, bool]]) -> None:
    found, _values = run_through(parse_script(text, file="run.sh"), text, file="run.sh")
    last = next(command for command in reversed(found) if command[0].text == "run")
    assert [(word.text, word.is_known, word.is_conditional) for word in last[1:]] == words


@pytest.mark.parametrize(
    ("text", "line"),
    [("a\nb 'c", 2), ('a "b', 1), ("A=(\n1", 1), ("a\n\n${b", 3), ("a $(b", 1)],
)
def test_marks_that_are_never_closed(text: str, line: int) -> None:
    with pytest.raises(InputError, match=rf"run\.sh, line {line} must be closed"):
        commands(text)


def test_variables_within_variables_come_to_an_end() -> None:
    text = "A0=(xxxxxxxxxx)\n" + "".join(f'A{i + 1}=("${{A{i}[@]}}" "${{A{i}[@]}}")\n' for i in range(40))
    with pytest.raises(InputError, match="must not fill variables into each other without end"):
        commands(text)
    text = "A0=xxxxxxxxxx\n" + "".join(f"A{i + 1}=$A{i}$A{i}\n" for i in range(40))
    with pytest.raises(InputError, match="must not fill variables into each other without end"):
        commands(text)
    with pytest.raises(InputError, match="is too deep inside of other braces"):
        commands("run " + "${A:-" * 50 + "}" * 50)
    with pytest.raises(InputError, match="is too deep inside of other blocks"):
        commands("if [ 1 -gt 0 ]; then " * 51)
    with pytest.raises(InputError, match="must have at most 100,000 characters"):
        commands("a" * 100_001)
    assert len(commands("a && " * 200)) == 200


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2*(3+4)-1", 13),
        ("7/2%2", 1),
        ("1/0", None),
        ("2**3", None),
        ("x", None),
        ("", None),
        ("9" * 16, None),
        ("(1", None),
    ],
)
def test_arithmetic(text: str, value: int | None) -> None:
    assert arithmetic(text, str) == value
