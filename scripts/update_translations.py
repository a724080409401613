#!/usr/bin/env python3
"""Bring the catalogues in step with the sources: ``make translations``.

New messages come into the ``evenflow.po`` of a language without a translation, for a person to write; those that no
source has any more go. The ``.mo`` beside it is what the package reads.
"""

import argparse
import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click
from babel.messages import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from evenflow import language
from evenflow.cli.main import VERBS, main
from evenflow.cli.sapp.flags import parser as balancer_parser
from evenflow.cli.shared.help_language import messages_of_help
from evenflow.schedule import ALIAS_NOTES, FAMILIES

ROOT = Path(__file__).resolve().parents[1]
SOURCES = (ROOT / "src" / "evenflow", ROOT / "evenflow-torch" / "src" / "evenflow_torch")
"""Both packages: their messages are in one catalogue, because the words are the same."""
MARKS = {"_": 1, "_n": 2, "to_translate": 1}
"""The functions that take messages, and how many of them."""
Key = str | tuple[str, str]


def messages_in(tree: ast.AST) -> Iterator[Key]:
    """The messages of a source, in order; one with a plural is a pair."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MARKS:
            texts = tuple(ast.literal_eval(text) for text in node.args[: MARKS[node.func.id]])
            yield texts if len(texts) == 2 else texts[0]


def help_of(command: click.Command) -> Iterator[str]:
    """The help of a command, of its options and of the commands below it."""
    yield from (message for message, _ in messages_of_help(command.help or ""))
    helps = (getattr(param, "help", None) for param in command.params)
    yield from (text for text in helps if text)
    for inner in getattr(command, "commands", {}).values():
        yield from help_of(inner)


def messages_apart() -> Iterator[tuple[str, str]]:
    """What is written apart from `_`, with its file: the help of both commands, and the table of schedule families."""
    context = click.Context(main)
    for message in [*VERBS.values(), *help_of(main)]:
        yield message, "evenflow/cli/main.py"
    for verb in VERBS:
        command = main.get_command(context, verb)
        assert command is not None
        yield from ((message, f"evenflow/cli/verbs/{verb.replace('-', '_')}") for message in help_of(command))
    for family in FAMILIES.own.values():
        told = (family.idea, family.limits, family.memory, family.bubble)
        yield from ((text, "evenflow/schedule/families.py") for text in told if re.search("[a-z]{3}", text))
    yield from ((text, "evenflow/schedule/families.py") for text in ALIAS_NOTES.values())
    parser = balancer_parser()
    texts = [parser.description, parser.epilog, *(action.help for action in parser._actions)]
    yield from ((text, "evenflow/cli/sapp/flags.py") for text in texts if text and text != argparse.SUPPRESS)


def all_messages() -> dict[Key, list[str]]:
    """Every message, with the files that it is in."""
    files: dict[Key, list[str]] = defaultdict(list)
    for folder in SOURCES:
        for path in sorted(folder.rglob("*.py")):
            for message in messages_in(ast.parse(path.read_text(encoding="utf-8"))):
                files[message].append(path.relative_to(folder.parent).as_posix())
    for text, name in messages_apart():
        files[text].append(name)
    return {message: sorted(set(names)) for message, names in files.items()}


def catalogue_file(name: str) -> Path:
    """The text of the catalogue of a language."""
    return language.CATALOGUES / name / "LC_MESSAGES" / "evenflow.po"


def read_catalogue(path: Path) -> Catalog:
    """A catalogue as it is written."""
    with path.open("rb") as file:
        catalogue = read_po(file, locale=path.parts[-3])
    # The same messages make the same file, whenever it is made.
    catalogue.creation_date = catalogue.revision_date = datetime.fromtimestamp(0, UTC)
    return catalogue


def updated(old: Catalog) -> Catalog:
    """The catalogue with the messages of the sources and no others."""
    new = Catalog(locale=old.locale, fuzzy=False)
    for message, files in all_messages().items():
        known = old.get(message[0] if isinstance(message, tuple) else message)
        new.add(message, known.string if known else "", locations=[(file, 0) for file in files])
    return new


def update() -> None:
    """Write the catalogue of every language but English, and compile what is kept by hand too."""
    for name in language.LANGUAGES:
        if name == language.ENGLISH:
            continue
        path = catalogue_file(name)
        head, _, _ = path.read_text(encoding="utf-8").partition("\n\n")
        catalogue = updated(read_catalogue(path))
        with path.open("wb") as file:
            file.write(f"{head}\n\n".encode())
            write_po(file, catalogue, width=110, omit_header=True, include_lineno=False, sort_by_file=True)
        for written in path.parent.glob("*.po"):
            with written.with_suffix(".mo").open("wb") as file:
                write_mo(file, read_catalogue(written))


if __name__ == "__main__":
    update()
