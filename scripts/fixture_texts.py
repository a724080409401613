"""The fixtures of a conftest.py, each as a text of its own: a test that asks for one does not use the others."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Fixture:
    """One fixture, without what the others of its file import and define."""

    text: str
    """Its function, with the imports and definitions of its file that it uses."""
    is_for_all: bool
    """Whether tests get it that do not ask for it."""
    is_imported: bool
    """Whether it is that of another conftest.py."""


def fixtures(text: str) -> dict[str, Fixture]:
    """Return the fixtures in the text of a conftest.py by their names; those of another file that it imports too."""
    definitions = {name: statement for statement in ast.parse(text).body for name in _bound(statement)}
    return {
        name: Fixture(
            text=_with_needs(name, definitions),
            is_for_all=_is_for_all(statement),
            is_imported=isinstance(statement, ast.ImportFrom),
        )
        for name, statement in definitions.items()
        if _is_fixture(statement)
    }


def _bound(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement at the top of a module defines."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in statement.names)
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        yield from (node.id for node in ast.walk(statement) if _is_stored(node))


def _is_stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _is_fixture(statement: ast.stmt) -> bool:
    """Return whether a statement defines a fixture, or hands on those of another conftest.py."""
    if isinstance(statement, ast.ImportFrom):
        return (statement.module or "").rpartition(".")[2] == "conftest"
    return isinstance(statement, ast.FunctionDef) and any(
        "fixture" in ast.unparse(decorator) for decorator in statement.decorator_list
    )


def _is_for_all(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.FunctionDef) and any(
        "autouse=True" in ast.unparse(decorator) for decorator in statement.decorator_list
    )


def _with_needs(name: str, definitions: dict[str, ast.stmt]) -> str:
    """Return the text of a definition and of all that it uses, of imports only the names that it uses."""
    needed, waiting = {name}, [name]
    while waiting:
        statement = definitions[waiting.pop()]
        if isinstance(statement, ast.Import | ast.ImportFrom):
            continue
        used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        used |= {node.arg for node in ast.walk(statement) if isinstance(node, ast.arg)}  # other fixtures
        fresh = (used & definitions.keys()) - needed
        needed |= fresh
        waiting += fresh
    statements = {id(definitions[used]): definitions[used] for used in sorted(needed)}.values()
    return "\n".join(ast.unparse(_only(statement, needed)) for statement in statements)


def _only(statement: ast.stmt, names: set[str]) -> ast.stmt:
    """Return an import of these names alone; any other statement as it is."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        kept = [alias for alias in statement.names if (alias.asname or alias.name.partition(".")[0]) in names]
        if isinstance(statement, ast.Import):
            return ast.Import(names=kept)
        return ast.ImportFrom(module=statement.module, names=kept, level=statement.level)
    return statement
