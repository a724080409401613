#!/usr/bin/env python3
"""Hold names to what things are: part of ``make lint``.

Words that fit every value (`found`, `each`, …) say nothing of it. At most one binding in two hundred may have
such a name; bindings are variables, parameters, functions and classes. A public class has a name of its own, so
that a search finds it.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = (ROOT / "src" / "evenflow", ROOT / "evenflow-torch" / "src" / "evenflow_torch")
FILLERS = frozenset({"one", "found", "each", "words", "where", "what", "given", "asked"})
MOST_FILLERS = 0.005
"""Share of all bindings."""


def bound_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield every name that a module binds, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno


def public_classes(tree: ast.Module) -> Iterator[str]:
    """Yield the public classes of a module."""
    yield from (node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_"))


def faults(modules: dict[str, ast.Module]) -> list[str]:
    """Return what is wrong in modules, which are given by their path."""
    bindings = [(path, *binding) for path, tree in modules.items() for binding in bound_names(tree)]
    fillers = sorted((path, line, name) for path, name, line in bindings if name in FILLERS)
    lines = []
    if len(fillers) > MOST_FILLERS * len(bindings):
        lines = [f"{path}:{line}: {name} says nothing of the value" for path, line, name in fillers]
        lines.append(f"{len(fillers):,} of {len(bindings):,} bindings: at most {MOST_FILLERS:.1%} may have such a name")
    homes = defaultdict(list)
    for path, tree in modules.items():
        for name in public_classes(tree):
            homes[name].append(path)
    return lines + [f"class {name} stands in {' and '.join(paths)}" for name, paths in homes.items() if len(paths) > 1]


def main() -> int:
    """Print what is wrong, and return the exit status."""
    paths = [path for folder in SOURCES for path in sorted(folder.rglob("*.py"))]
    modules = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    lines = faults(modules)
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
