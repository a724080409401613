#!/usr/bin/env python3
"""Bring the catalogues in step with the sources: ``make translations``.

New messages come into the ``evenflow.po`` of a language without a translation, for a person to write; those that no
source has any more go. The ``.mo`` beside it is what the package reads.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from babel.messages import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from evenflow import language

SOURCES = Path(language.__file__).parent
MARKS = {"_": 1, "_n": 2, "marked": 1}
"""The functions that take messages, and how many of them."""
Key = str | tuple[str, str]


def messages_in(tree: ast.AST) -> Iterator[Key]:
    """The messages of a source, in order; one with a plural is a pair."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in MARKS:
            texts = tuple(ast.literal_eval(text) for text in node.args[: MARKS[node.func.id]])
            yield texts if len(texts) == 2 else texts[0]


def all_messages() -> dict[Key, list[str]]:
    """Every message, with the files that it is in."""
    files: dict[Key, list[str]] = defaultdict(list)
    for path in sorted(SOURCES.rglob("*.py")):
        for message in messages_in(ast.parse(path.read_text(encoding="utf-8"))):
            name = path.relative_to(SOURCES.parent).as_posix()
            if name not in files[message]:
                files[message].append(name)
    return files


def catalogue_file(name: str) -> Path:
    """The text of the catalogue of a language."""
    return language.CATALOGUES / name / "LC_MESSAGES" / "evenflow.po"


def read_catalogue(name: str) -> Catalog:
    """The catalogue of a language as it is written."""
    with catalogue_file(name).open("rb") as file:
        return read_po(file, locale=name)


def updated(old: Catalog) -> Catalog:
    """The catalogue with the messages of the sources and no others."""
    epoch = datetime.fromtimestamp(0, UTC)  # so that the same messages make the same file
    new = Catalog(locale=old.locale, fuzzy=False, creation_date=epoch, revision_date=epoch)
    for message, files in all_messages().items():
        known = old.get(message[0] if isinstance(message, tuple) else message)
        new.add(message, known.string if known else "", locations=[(file, 0) for file in files])
    return new


def main() -> None:
    """Write the catalogue of every language but English."""
    for name in language.LANGUAGES:
        if name == language.ENGLISH:
            continue
        path = catalogue_file(name)
        head, _, _ = path.read_text(encoding="utf-8").partition("\n\n")
        catalogue = updated(read_catalogue(name))
        with path.open("wb") as file:
            file.write(f"{head}\n\n".encode())
            write_po(file, catalogue, width=110, omit_header=True, include_lineno=False, sort_by_file=True)
        with path.with_suffix(".mo").open("wb") as file:
            write_mo(file, catalogue)


if __name__ == "__main__":
    main()
