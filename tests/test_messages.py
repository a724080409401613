"""Every rule in the code reads on from its place, and every message is one that the catalogues can have."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import evenflow

ERRORS = ("InputError", "ScheduleError")
COMPREHENSIONS = ast.GeneratorExp | ast.ListComp | ast.SetComp | ast.DictComp
PARTS = ("rule", "remedy", "reason")
"""The keywords of errors that take sentences."""


@cache
def sources() -> dict[Path, ast.Module]:
    """The modules by their path: read when a test asks, not when tests are collected."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in Path(evenflow.__file__).parent.rglob("*.py")}


def sentences(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Values of `rule`, `remedy` and `reason`, where an error is made or a message is prepared."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from ((keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg in PARTS)
        elif isinstance(node, ast.Assign):
            names = (target.id for target in node.targets if isinstance(target, ast.Name))
            yield from ((name, node.value) for name in names if name in PARTS)


def choices(value: ast.expr) -> Iterator[ast.expr]:
    """What a sentence may be, whichever way it goes."""
    if isinstance(value, ast.IfExp):
        yield from choices(value.body)
        yield from choices(value.orelse)
    else:
        yield value


def is_message(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("_", "_n")


def test_every_rule_begins_with_must() -> None:
    found = [
        (path.name, ast.literal_eval(text.args[0]))
        for path, tree in sources().items()
        for name, value in sentences(tree)
        for text in choices(value)
        if name == "rule" and isinstance(text, ast.Call) and is_message(text)
    ]
    assert len(found) > 200
    assert [(name, text) for name, text in found if not text.startswith(("must ", "is ", "{rule} "))] == []


def test_every_sentence_of_an_error_is_in_the_catalogues() -> None:
    """A text that is no message would be English for everybody."""
    texts = [
        (path.name, ast.unparse(text))
        for path, tree in sources().items()
        for _, value in sentences(tree)
        for text in choices(value)
        if isinstance(text, ast.JoinedStr | ast.BinOp)
        or (isinstance(text, ast.Constant) and text.value not in ("", None))
    ]
    assert texts == []


def test_what_a_solver_is_doing_is_a_message() -> None:
    """The phase of a progress report, however short."""
    phases = [
        (path.name, ast.literal_eval(call.args[0]))
        for path, tree in sources().items()
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("._report") and call.args
        if isinstance(call.args[0], ast.Constant)
    ]
    phases += [
        (path.name, word.value.value)
        for path, tree in sources().items()
        for word in ast.walk(tree)
        if isinstance(word, ast.keyword) and word.arg == "phase" and isinstance(word.value, ast.Constant)
    ]
    assert phases == []


def is_set(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def scopes(tree: ast.Module) -> Iterator[ast.AST]:
    yield tree
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef))


def inside(scope: ast.AST) -> Iterator[ast.AST]:
    """Everything in a scope but what is in the functions and comprehensions in it."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef | COMPREHENSIONS):
            yield from inside(node)


def test_no_variable_hides_the_function_of_messages() -> None:
    """In a function that assigns to `_`, even in a loop, `_()` is that variable."""
    hidden = [
        path.name
        for path, tree in sources().items()
        for scope in scopes(tree)
        if any(isinstance(node, ast.expr) and is_message(node) for node in inside(scope))
        and any(isinstance(node, ast.Name) and node.id == "_" and is_set(node) for node in inside(scope))
    ]
    assert hidden == []


def test_every_message_is_written_out() -> None:
    """Values go in by name: a message that is put together elsewhere is in no catalogue."""
    calls = [(path, node) for path, tree in sources().items() for node in ast.walk(tree) if isinstance(node, ast.expr)]
    made = [
        f"{path.name}:{call.lineno}"
        for path, call in calls
        if is_message(call) and isinstance(call, ast.Call) and not isinstance(call.args[0], ast.Constant)
    ]
    assert made == []
