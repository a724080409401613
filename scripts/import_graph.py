"""Which file uses which, read from the text of the sources: what they import, load by name and mention.

An import inside a function counts. One for type checkers does not, but it tells where a lazy package, one that has a
function `__getattr__`, has its names. A package is passed through: who takes `Plan` from `evenflow.model` uses the
module that defines it and not all that the package imports. Of a conftest.py, tests use the fixtures that they ask for.
"""

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from scripts.fixture_texts import Fixture, fixtures

DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
Name = tuple[str, str]
"""A module, and what is taken from it; nothing where the module itself is."""


@dataclass(kw_only=True)
class Source:
    """What the text of one Python file says of other modules."""

    imports: set[Name] = field(default_factory=set)
    """Names that it imports, and attributes of modules that it imports whole."""
    homes: dict[str, Name] = field(default_factory=dict)
    """Where each name that it imports comes from, those of a lazy package too."""
    asked: set[str] = field(default_factory=set)
    """Parameters of its functions: of tests the fixtures that they ask for."""
    strings: set[str] = field(default_factory=set)
    """Its string constants, without documentation."""
    packages: set[str] = field(default_factory=set)
    """Packages of which it loads one module, by a name that is known when it runs."""
    listed: set[Name] = field(default_factory=set)
    """Packages of which it loads every module that is there, those of packages in them too."""
    is_lazy: bool = False
    has_doctests: bool = False


def read_source(text: str, package: str) -> Source:
    """Return what a Python text says of other modules; `package` is what its relative imports start from."""
    tree = ast.parse(text)
    is_lazy = any(isinstance(node, ast.FunctionDef) and node.name == "__getattr__" for node in tree.body)
    source = Source(is_lazy=is_lazy, has_doctests=">>> " in text)
    whole: dict[str, str] = {}
    nodes = list(_nodes(tree, is_run=True))
    for node, is_run in nodes:
        for name, home in _imported(node, package):
            if is_run:
                source.imports.add(home)
            if is_run or is_lazy:
                source.homes[name] = home
            if is_run and not home[1]:
                whole[name] = home[0]
    for node, is_run in nodes:
        if isinstance(node, ast.Attribute):
            if module := whole.get(_dotted(node.value)):
                source.imports.add((module, node.attr))
            if node.attr == "__path__":
                source.listed.add(source.homes.get(_dotted(node.value), ("", "")))
        elif isinstance(node, ast.arg):
            source.asked.add(node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and is_run:
            source.strings.add(node.value)
        elif isinstance(node, ast.Call) and _dotted(node.func) == "importlib.import_module":
            source.packages |= {match for argument in node.args[:1] for match in _prefix(argument)}
    return source


def _nodes(node: ast.AST, *, is_run: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Yield everything below a node but documentation, each with whether it is run or for type checkers only."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        yield child, is_run
        if isinstance(child, ast.If) and _dotted(child.test).endswith("TYPE_CHECKING"):
            for statement in child.body:
                yield statement, False
                yield from _nodes(statement, is_run=False)
            for statement in child.orelse:
                yield statement, is_run
                yield from _nodes(statement, is_run=is_run)
        else:
            yield from _nodes(child, is_run=is_run)


def _dotted(node: ast.AST) -> str:
    """Return ``a.b.c`` as it is written; nothing for what is no such name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (start := _dotted(node.value)):
        return f"{start}.{node.attr}"
    return ""


def _imported(node: ast.AST, package: str) -> Iterator[tuple[str, Name]]:
    """Yield the names that a statement binds, each with what it imports."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.asname or alias.name, (alias.name, "")
    elif isinstance(node, ast.ImportFrom):
        above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
        module = ".".join([*above, *([node.module] if node.module else [])])
        for alias in node.names:
            yield alias.asname or alias.name, (module, alias.name)


def _prefix(argument: ast.expr) -> Iterator[str]:
    """Yield the package of ``f"evenflow.cli.verbs.{name}"``."""
    if isinstance(argument, ast.JoinedStr) and isinstance(argument.values[0], ast.Constant):
        yield str(argument.values[0].value).rstrip(".")


def import_roots(texts: Mapping[str, str]) -> list[str]:
    """Return the folders from which modules are imported, the longest first: those that any pyproject.toml names."""
    roots = {""}
    for path, text in texts.items():
        if PurePosixPath(path).name != "pyproject.toml":
            continue
        tool = tomllib.loads(text).get("tool", {})
        paths = tool.get("pytest", {}).get("ini_options", {}).get("pythonpath", [])
        wheel = tool.get("hatch", {}).get("build", {}).get("targets", {}).get("wheel", {})
        paths += [str(PurePosixPath(package).parent) for package in wheel.get("packages", ())]
        here = PurePosixPath(path).parent
        roots |= {str(here / root) for root in paths} | {str(here)}
    return sorted((root if root != "." else "" for root in roots), key=len, reverse=True)


def module_name(path: str, roots: Sequence[str]) -> str:
    """Return the name by which a Python file is imported from the innermost of the roots that have it."""
    root = next(root for root in roots if not root or path.startswith(f"{root}/"))
    parts = PurePosixPath(path).relative_to(root or ".").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def entry_points(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the module of every entry point that a pyproject.toml declares, by name."""
    modules = {}
    for path, text in texts.items():
        if PurePosixPath(path).name == "pyproject.toml":
            for group in tomllib.loads(text).get("project", {}).get("entry-points", {}).values():
                modules |= {name: value.partition(":")[0] for name, value in group.items()}
    return modules


class ImportGraph:
    """The files that each Python file of a repository uses."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """Read the texts of the Python files and of every pyproject.toml by their paths in the repository."""
        roots = import_roots(texts)
        names = {path: module_name(path, roots) for path in texts if path.endswith(".py")}
        self.modules = {name: path for path, name in names.items()}
        self.sources = {
            path: read_source(texts[path], name if _is_package(path) else name.rpartition(".")[0])
            for path, name in names.items()
        }
        self._fixtures: dict[str, dict[str, Fixture]] = {
            path: fixtures(texts[path]) for path in names if PurePosixPath(path).name == "conftest.py"
        }
        """The fixtures of each conftest.py; each is a file of its own here, called ``tests/conftest.py::name``."""
        for path, own in self._fixtures.items():
            package = names[path].rpartition(".")[0]
            self.sources |= {f"{path}::{name}": read_source(fixture.text, package) for name, fixture in own.items()}
        self._entered: dict[str, set[str]] = defaultdict(set)
        """Packages that a file passes through: it depends on their own text, not on all that they import."""
        self.uses = {path: self._used(path) for path in self.sources}
        points = entry_points(texts)
        by_name = {path: self._used_by_name(path, points) for path in self.sources if is_test(path)}
        for path, used in by_name.items():
            self.uses[path] |= used

    def users(self, paths: set[str]) -> set[str]:
        """Return these files, and every file that uses one of them, however indirectly."""
        users: dict[str, set[str]] = defaultdict(set)
        for path, used in self.uses.items():
            for other in used:
                users[other].add(path)
        return _closure(paths | {path for path, packages in self._entered.items() if packages & paths}, users)

    def _used(self, path: str) -> set[str]:
        """Return the files that one uses by its imports, its strings and the fixtures of its folders."""
        if path in self._fixtures:  # what its fixtures use, tests reach by their names
            return set()
        source = self.sources[path]
        used = {file for name in source.imports for file in self._files(name, path)}
        for text in () if source.is_lazy else source.strings:
            used |= {file for dotted in DOTTED.findall(text) for file in self._files((dotted, ""), path)}
            if "-m" in source.strings and f"{text}.__main__" in self.modules:  # a command line
                used.add(self.modules[f"{text}.__main__"])
        for package in {".".join(name) for name in source.listed} - {"."}:
            used |= {file for module, file in self.modules.items() if module.startswith(f"{package}.")}
        return (used | set(self._asked_fixtures(path))) - {path}

    def _asked_fixtures(self, path: str) -> Iterator[str]:
        """Yield every conftest.py around a file, and those fixtures of them that the file gets."""
        source, (file, _, _) = self.sources[path], path.partition("::")
        for folder in PurePosixPath(file).parents:
            conftest = str(folder / "conftest.py")
            if conftest not in self._fixtures:
                continue
            yield conftest
            for name in self._fixtures[conftest]:
                if name in source.asked | source.strings or self._is_for_all(conftest, name):
                    yield f"{conftest}::{name}"

    def _is_for_all(self, conftest: str, name: str) -> bool:
        """Return whether every test below gets a fixture, that of another conftest.py which this one imports too."""
        fixture = self._fixtures[conftest][name]
        homes = self.sources[f"{conftest}::{name}"].imports if fixture.is_imported else ()
        origins = [(self.modules.get(module, ""), attribute) for module, attribute in homes]
        return fixture.is_for_all or any(
            attribute in self._fixtures.get(path, ()) and self._is_for_all(path, attribute)
            for path, attribute in origins
        )

    def _files(self, name: Name, user: str) -> set[str]:
        """Return where a name is defined, behind the packages that hand it on; nothing for names of other projects."""
        module, attribute = name
        while module and module not in self.modules:  # an attribute of a class, or a folder that is no package
            module, _, attribute = module.rpartition(".") if not self._is_folder(module) else ("", "", "")
        if not module:
            full = ".".join(filter(None, name))
            return {self.modules[full]} if full in self.modules else set()
        path = self.modules[module]
        if attribute in self._fixtures.get(path, ()):
            return {f"{path}::{attribute}"}
        self._entered[user] |= {self.modules[above] for above in _above(module) if above in self.modules}
        home = self.sources[path].homes.get(attribute)
        if home and _is_package(path) and home != (module, attribute):
            self._entered[user].add(path)
            return self._files(home, user)
        if attribute and f"{module}.{attribute}" in self.modules:
            return self._files((f"{module}.{attribute}", ""), user)
        if self.sources[path].is_lazy:
            self._entered[user].add(path)
            return set()
        return {path}

    def _is_folder(self, module: str) -> bool:
        return any(name.startswith(f"{module}.") for name in self.modules)

    def _used_by_name(self, test: str, points: Mapping[str, str]) -> set[str]:
        """Return what a test loads by name: the modules that its strings or its path name, else all that can be."""
        reached = _closure({test}, self.uses)
        packages = {package for path in reached for package in self.sources[path].packages} - set(self._lazy_packages())
        if not packages:
            return set()
        choices = {
            name.rpartition(".")[2].replace("_", "-"): path
            for name, path in self.modules.items()
            if name.rpartition(".")[0] in packages
        }
        choices |= {name: self.modules[module] for name, module in points.items() if module in self.modules}
        own = {path for path in reached if "src" not in path.split("/")}
        words = {text.split(maxsplit=1)[0] for path in own for text in self.sources[path].strings if text.strip()}
        named = {path for name, path in choices.items() if name in words}
        return named or set(choices.values())

    def _lazy_packages(self) -> Iterator[str]:
        return (name for name, path in self.modules.items() if self.sources[path].is_lazy)


def is_test(path: str) -> bool:
    """Return whether pytest collects a file."""
    return PurePosixPath(path).name.startswith("test_") and path.endswith(".py")


def _is_package(path: str) -> bool:
    return path.endswith("__init__.py")


def _above(module: str) -> Iterator[str]:
    """Yield the packages around a module."""
    while module := module.rpartition(".")[0]:
        yield module


def _closure(starts: set[str], edges: Mapping[str, set[str]]) -> set[str]:
    """Return all that can be reached, the starts included."""
    reached, waiting = set(starts), list(starts)
    while waiting:
        fresh = edges.get(waiting.pop(), set()) - reached
        reached |= fresh
        waiting += fresh
    return reached
