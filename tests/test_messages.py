"""Every rule in the code reads on from its place: it says what must be, or what something is that must not be."""

import ast
from collections.abc import Iterator
from pathlib import Path

import evenflow

ERRORS = ("InputError", "ScheduleError")
SOURCES = sorted(Path(evenflow.__file__).parent.rglob("*.py"))


def rules(tree: ast.AST) -> Iterator[ast.expr]:
    """Values of `rule`, where an error is made or a message is prepared."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS:
            yield from (keyword.value for keyword in node.keywords if keyword.arg == "rule")
        elif isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "rule" for target in node.targets
        ):
            yield node.value


def beginnings(value: ast.expr) -> Iterator[str]:
    """The first words of a message, whichever way it may go."""
    if isinstance(value, ast.IfExp):
        yield from beginnings(value.body)
        yield from beginnings(value.orelse)
    elif isinstance(value, ast.JoinedStr):
        yield from beginnings(value.values[0])
    elif isinstance(value, ast.BinOp):
        yield from beginnings(value.left)
    elif isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value.value


def test_every_rule_begins_with_must() -> None:
    found = [
        (path.name, text)
        for path in SOURCES
        for value in rules(ast.parse(path.read_text(encoding="utf-8")))
        for text in beginnings(value)
    ]
    assert len(found) > 200
    assert [(name, text) for name, text in found if not text.startswith(("must ", "is "))] == []
