"""The language of a command: chosen anywhere on the line, spoken in help, in messages and by click itself."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from evenflow.cli.main import VERBS, main
from evenflow.cli.shared.help_language import asked_language, speaking_as_asked
from evenflow.language import CHINESE, ENGLISH, spoken
from tests.cli.conftest import Evenflow


@pytest.mark.parametrize(
    ("arguments", "language"),
    [
        (["plan", "x.json"], ENGLISH),
        (["--lang", "zh", "plan"], CHINESE),
        (["plan", "x.json", "--lang=zh"], CHINESE),
        (["plan", "--lang", "fr"], ENGLISH),
        (["plan", "--", "--lang", "zh"], ENGLISH),
    ],
)
def test_the_option_stands_anywhere(arguments: list[str], language: str) -> None:
    assert asked_language(arguments, {}) == language


def test_the_option_is_stronger_than_the_environment() -> None:
    assert asked_language(["plan", "--lang", "en"], {"EVENFLOW_LANG": "zh", "LANG": "zh_CN"}) == ENGLISH


def test_processes_started_meanwhile_speak_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENFLOW_LANG")
    with speaking_as_asked(["--lang", "zh"]):
        assert (spoken(), os.environ["EVENFLOW_LANG"]) == (CHINESE, CHINESE)
    assert (spoken(), os.environ.get("EVENFLOW_LANG")) == (ENGLISH, None)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_the_option_once(verb: str) -> None:
    for _ in range(2):
        command = main.get_command(click.Context(main), verb)
    assert command is not None
    assert [name for param in command.params for name in param.opts].count("--lang") == 1


def test_what_click_says_by_itself_is_translated(evenflow: Evenflow) -> None:
    assert evenflow("plan", "--oops", "--lang", "zh").stderr.startswith("错误：没有选项 '--oops'；")
    assert "缺少选项 '--ranks'" in evenflow("--lang", "zh", "quick-tune", "x.json", "--microbatches", 2).stderr
    assert "缺少 '--ranks', '--microbatches'；" in evenflow("--lang", "zh", "quick-tune", "x.json").stderr
    assert "\n选项:\n" in evenflow("guide", "--help", "--lang", "zh").stdout


def test_the_next_command_speaks_its_own_language(evenflow: Evenflow) -> None:
    evenflow("guide", "--help", "--lang", "zh")
    english = evenflow("guide", "--help").stdout
    assert "\nOptions:\n" in english
    assert english.endswith("  Show this message and exit.\n")
    assert evenflow("guide", "--help", "--lang", "zh").stdout.endswith("  显示本帮助并退出。\n")


def test_another_language_is_refused(evenflow: Evenflow) -> None:
    assert evenflow("plan", "--lang", "fr").stderr.startswith("error: Invalid value for '--lang': 'fr' is not one of")


NAMES = re.compile(r"--?[\w-]+|[A-Z][\w.,-]*[A-Z]\S*|\[.*?\]|`.*?`|[\w./+-]*[./_+*=:|][\w./+*=:|-]*")
"""Options, values that stand for others, commands and files: what is the same in every language."""


def english_in(text: str) -> list[str]:
    """Lines with several English words one after the other."""
    return [line for line in NAMES.sub("", text).splitlines() if re.search(r"[a-z]{2,} [a-z]{2,} [a-z]{2,}", line)]


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_no_sentence_of_the_help_is_left_in_english(evenflow: Evenflow, verb: str) -> None:
    text = evenflow(*verb.split(), "--help", "--lang", "zh").stdout
    text = re.sub(r"示例：\n(?:    .*\n)+", "", text)
    assert english_in(text) == []


def test_the_balancers_command_has_help_in_chinese(balance: Callable[..., tuple[int, str, str]]) -> None:
    status, text, _ = balance("--help", "--lang", "zh")
    assert status == 0
    before_the_examples = text.split("示例")[0]
    left = [
        line
        for line in NAMES.sub("", before_the_examples).splitlines()
        if re.search(r"[a-z]{2,} [a-z]{2,} [a-z]{2,}", line)
    ]
    assert left == []


CHINESE_SIGN = re.compile("[\u4e00-\u9fff]")


@pytest.mark.usefixtures("fake_solver")
def test_what_is_printed_is_in_chinese_and_every_file_is_in_english(folder: Path, evenflow: Evenflow) -> None:
    arguments = ("plan", "tiny.json", "--ranks", 2, "--microbatches", 4, "--memory", "1GB", "--lang", "zh")
    result = evenflow(*arguments, "--json", "plan.json", "--svg", "plan.svg", "--order", "order.csv")
    assert result.exit_code == 0
    assert "差距" in result.stderr or "距最优" in result.stdout
    assert not re.search(r"[a-z]{3,} [a-z]{3,} [a-z]{3,}", re.sub(r"evenflow [a-z]+", "", result.stdout))
    written = [file.read_text() for file in folder.iterdir() if file.suffix in (".json", ".svg", ".csv")]
    assert len(written) == 4
    assert not any(CHINESE_SIGN.search(text) for text in written)


@pytest.mark.usefixtures("fake_solver")
def test_an_answer_without_a_plan_is_in_chinese_and_its_file_in_english(folder: Path, evenflow: Evenflow) -> None:
    arguments = ("plan", "tiny.json", "--ranks", 2, "--microbatches", 4, "--memory", "1MB", "--lang", "zh")
    result = evenflow(*arguments, "--json", "plan.json")
    assert result.exit_code == 3
    assert "无解：" in result.stderr
    assert not CHINESE_SIGN.search((folder / "plan.json").read_text())


def test_an_error_is_in_chinese(folder: Path, evenflow: Evenflow) -> None:
    result = evenflow("plan", "none.json", "--ranks", 2, "--microbatches", 4, "--lang", "zh")
    assert (result.exit_code, result.stderr) == (2, "错误：无法读取 none.json：文件不存在\n")
