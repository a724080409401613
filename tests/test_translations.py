"""Nothing is missing in either language: the catalogues have every message of the sources, and no other."""

import ast
import re
import string

import pytest
from babel.messages import Catalog, Message
from babel.messages.pofile import read_po
from scripts.update_translations import MARKS, SOURCES, Key, all_messages

from evenflow import language
from evenflow.language import CATALOGUES, CHINESE, ENGLISH, LANGUAGES, looked_up, speaking

OTHERS = [name for name in LANGUAGES if name != ENGLISH]


@pytest.fixture(scope="module")
def messages() -> set[Key]:
    return set(all_messages())


def catalogue(name: str, domain: str = "evenflow") -> Catalog:
    with (CATALOGUES / name / "LC_MESSAGES" / f"{domain}.po").open("rb") as file:
        return read_po(file, locale=name)


def entries(name: str, domain: str = "evenflow") -> dict[Key, Message]:
    return {message.id: message for message in catalogue(name, domain) if message.id}


def texts(message: Message) -> list[str]:
    return [message.string] if isinstance(message.string, str) else list(message.string)


@pytest.mark.parametrize("name", OTHERS)
def test_every_message_has_a_translation(name: str, messages: set[Key]) -> None:
    written = {key for key, message in entries(name).items() if all(texts(message)) and not message.fuzzy}
    assert sorted(messages - written, key=str) == [], "run `make translations`, then write these into the .po file"


@pytest.mark.parametrize("name", OTHERS)
def test_no_catalogue_has_a_message_that_no_source_has(name: str, messages: set[Key]) -> None:
    assert sorted(entries(name).keys() - messages, key=str) == [], "run `make translations`"


def values_of(text: str) -> set[tuple[str | None, ...]]:
    """The values of a message, with how they are written."""
    return {(name, style, sign) for _, name, style, sign in string.Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("name", OTHERS)
def test_a_translation_has_the_values_of_its_message(name: str) -> None:
    wrong = []
    for key, message in entries(name).items():
        source = key if isinstance(key, str) else key[-1]
        if source.count("{") == source.count("{...}"):  # no values, perhaps braces that stand for themselves
            continue
        wrong += [source for text in texts(message) if text and values_of(text) != values_of(source)]
    assert wrong == []


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("domain", ["evenflow", "toolkit"])
def test_the_compiled_catalogue_is_that_of_the_text(name: str, domain: str) -> None:
    compiled = language.gettext.translation(domain, CATALOGUES, languages=[name])
    for key, message in entries(name, domain).items():
        if isinstance(key, str):
            found = compiled.gettext(key)
        else:
            found = compiled.ngettext(*key, 2)
        assert not all(texts(message)) or found == texts(message)[-1], "run `make translations`"


def test_chinese_has_its_own_punctuation() -> None:
    """A comma or a bracket beside a Chinese character is a Chinese one."""
    half = {
        text
        for message in entries(CHINESE).values()
        for text in texts(message)
        for before, sign, after in zip(text, text[1:], text[2:] + " ", strict=False)
        if sign in ",;:()?!" and ("\u4e00" <= before <= "\u9fff" or "\u4e00" <= after <= "\u9fff")
    }
    assert half == set()


def test_the_terms_of_the_documents() -> None:
    with speaking(CHINESE):
        found = [
            looked_up(word) for word in ("stage", "recompute", "bubble", "imbalance", "layers", "forward", "backward")
        ]
    assert found == ["阶段", "重计算", "气泡", "不均衡", "层数", "前向", "反向"]


KEPT = (
    "pages/two_level_picture.py",
    "draw/",  # pictures, whose fonts need not have Chinese
    "export/dry_run_text.py",  # what the SAPP guide documents, word for word
    "targets/frameworks/mindformers/block.py",
    "profiles/logs/",  # lines of logs
    "profiles/measured/logs/",
    "targets/megatron_family/logs.py",
    "targets/megatron_family/nemo_logs.py",
    "targets/megatron_family/rank_peaks.py",
    "targets/frameworks/deepspeed/logs.py",
    "targets/frameworks/mindformers/logs.py",
    "targets/frameworks/mindformers/peak_logs.py",
    "targets/frameworks/torchtitan/logs.py",
    "profiles/measured/layouts.py",  # words in which published runs state their settings
    "profiles/measured/settings.py",
    "predict/activations.py",  # names of tensors, which nothing prints
    "predict/layer_tensors.py",
    "predict/held.py",  # values in JSON
    "schedule/bubble_formulas.py",  # values in JSON
    "auto/sharding/program.py",
    "models/trace/",
    "run/aa/",
    "cluster/data_sheets.py",  # names of data sheets, and what stands in for one
    "targets/frameworks/torch_csv/target.py",  # comments of a script
    "models/equal_parts.py",  # what stands in a fingerprint
    "models/decoder_config.py",  # messages of transformers
    "schedule/families.py",  # checked above, and names of papers
)
"""Files with texts of several words that are in English for everybody."""
CODE = re.compile(r'^"""|\bimport \w| = |:  # |^  # |^\w+\(\) \{')
"""Of a text that is Python or a function of a shell, for a training script."""
WORDS = re.compile(r"[a-z]{2,} [a-z]+ [a-z]{2,}")
FAULTS = {"AssertionError", "AttributeError", "ValueError", "RuntimeError"}
"""Errors of a program, not of its user."""


def is_for_users(node: ast.AST, above: dict[int, ast.AST]) -> bool:
    """Whether a text may be shown to a user as it is: no docstring, help, message or fault of a program."""
    while id(node) in above:
        node = above[id(node)]
        if isinstance(node, ast.Expr | ast.Assert | ast.JoinedStr):
            return False
        if isinstance(node, ast.keyword) and node.arg in ("help", "description", "epilog"):
            return False
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {*MARKS, *FAULTS}:
            return False
    return True


def words_of(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "\0".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def test_no_sentence_is_outside_the_catalogues(messages: set[Key]) -> None:
    found = []
    for path, name in ((path, path.relative_to(root).as_posix()) for root in SOURCES for path in root.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        above = {id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        found += [
            (name, words_of(node))
            for node in ast.walk(tree)
            if not name.startswith(KEPT)
            and WORDS.search(words_of(node))
            and not CODE.search(words_of(node))
            and words_of(node) not in messages
            and is_for_users(node, above)
        ]
    assert found == []
