"""The checker is small, and shares nothing with the planner but the file."""

import ast
import io
import tokenize

import pytest

from tests.paths import ROOT

FOLDER = ROOT / "src/evenflow/verify"
CHECKER = ("order.py", "contents.py", "joint.py", "graph.py", "check.py")
ALLOWED = {
    *("evenflow.verify", "evenflow.language", "evenflow.errors"),
    *("numpy", "msgspec", "re", "collections", "dataclasses", "itertools", "typing"),
}


def imported(text: str) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(str(node.module))
    return names


def lines_of_code(text: str) -> int:
    """Lines that are no docstrings, comments or empty ones."""
    documented = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, (node.end_lineno or 0) + 1)
    }
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return len({token.start[0] for token in tokens if token.type not in skipped} - documented)


@pytest.mark.parametrize("name", [*CHECKER, "certificate.py", "__init__.py"])
def test_it_imports_nothing_of_the_planner(name):
    for module in imported((FOLDER / name).read_text()):
        assert any(module == allowed or module.startswith(f"{allowed}.") for allowed in ALLOWED), module


def test_every_module_is_looked_at():
    assert {path.name for path in FOLDER.glob("*.py")} == {*CHECKER, "certificate.py", "__init__.py"}


def test_it_has_at_most_500_lines_of_code():
    assert lines_of_code("# one\n'''two\n'''\n\nx = [\n  1]\n") == 2
    assert sum(lines_of_code((FOLDER / name).read_text()) for name in CHECKER) <= 500
