"""The configuration that a Python file of torchtitan makes, read without running it::

    def my_run() -> Trainer.Config:
        config = llama3_70b()
        config.parallelism = ParallelismConfig(pipeline_parallel_degree=4)
        config.training.num_tokens_per_microbatch_per_dp_rank = 2 * 8192
        return config

Constants, sums and products of them, and calls of functions of the same file are understood. Any other value is its own
text, which is no number where one is read. [torchtitan, `models/llama3/config_registry.py`]
"""

import ast
import operator
from collections.abc import Callable, Mapping

from evenflow.errors import InputError
from evenflow.language import _

Sections = dict[str, object]
"""Settings by name; a section of them is one too."""
_PARALLELISM, _POLICY = "parallelism", "activation_checkpoint"
_POLICIES: Mapping[str, Mapping[str, object]] = {
    "SelectiveAC": {"force_recompute_mm_shapes_by_fqns": []},
    "MemoryBudgetAC": {"memory_budget": None},
}
"""A setting by which each policy of recomputation is told apart in what torchtitan saves."""
_MOST_CALLS = 20
_LARGEST = 10**15
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


def configuration_in(text: str, *, file: str) -> Sections:
    """Return the sections of the configuration that the file's one function makes which sets a pipeline.

    Raises:
        InputError: text that is not Python, or no such function, or several.
    """
    try:
        tree = ast.parse(text)
        reader = _Reader(tree)
        made = {name: reader.made(name) for name in reader.functions}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(rule=_("must be Python"), place=file) from None
    with_pipeline = {name: values for name, values in made.items() if _has_pipeline(values)}
    if len(with_pipeline) != 1:
        raise InputError(
            value=", ".join(with_pipeline) or None,
            rule=_("must have one function that returns a configuration with pipeline_parallel_degree"),
            place=file,
            remedy=_("leave one of them in the file, or give what debug.save_config_file saves"),
        )
    ((_name, values),) = with_pipeline.items()
    return {"model_spec": {}, _POLICY: dict(_POLICIES["SelectiveAC"]), **values}


def makes_configuration(text: str) -> bool:
    """Return whether a text looks like Python that makes configurations of torchtitan."""
    return "torchtitan" in text and "pipeline_parallel_degree" in text


def _has_pipeline(values: Sections) -> bool:
    parallelism = values.get(_PARALLELISM)
    return isinstance(parallelism, dict) and "pipeline_parallel_degree" in parallelism


class _Reader:
    """The functions and constants of a file."""

    def __init__(self, tree: ast.Module) -> None:
        self.functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        self.constants: Sections = {}
        for node in tree.body:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                self.constants[node.targets[0].id] = self._value(node.value, self.constants, depth=0)

    def made(self, name: str, *, depth: int = 0) -> Sections:
        """Return the sections that a function's configuration has; empty where it returns none."""
        variables = dict(self.constants)
        for statement in self.functions[name].body:
            if isinstance(statement, ast.Return):
                value = None if statement.value is None else self._value(statement.value, variables, depth=depth)
                return value if isinstance(value, dict) else {}
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                self._assign(statement.targets[0], statement.value, variables, depth=depth)
            else:
                for inner in ast.walk(statement):  # what a condition or a loop sets
                    for target in inner.targets if isinstance(inner, ast.Assign) else ():
                        _set(target, ast.unparse(statement).splitlines()[0], variables)
        return {}

    def _assign(self, target: ast.expr, node: ast.expr, variables: Sections, *, depth: int) -> None:
        value = self._value(node, variables, depth=depth)
        if isinstance(node, ast.Call) and isinstance(value, str) and isinstance(target, ast.Name):
            value = {}  # a configuration that another file makes
        _set(target, value, variables)

    def _value(self, node: ast.expr, variables: Sections, *, depth: int) -> object:
        """Return the value of an expression; its text where it is not understood."""
        value: object = ast.unparse(node)
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return variables.get(node.id, value)
        if isinstance(node, ast.Call):
            return self._called(node, variables, depth=depth)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            number = self._value(node.operand, variables, depth=depth)
            return -number if isinstance(number, int) else value
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            left, right = (self._value(side, variables, depth=depth) for side in (node.left, node.right))
            if isinstance(left, int) and isinstance(right, int) and max(abs(left), abs(right)) < _LARGEST:
                return _OPERATORS[type(node.op)](left, right)
        if isinstance(node, ast.List | ast.Tuple):
            return [self._value(item, variables, depth=depth) for item in node.elts]
        if isinstance(node, ast.Dict):
            keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
            values = [self._value(item, variables, depth=depth) for item in node.values]
            if len(keys) == len(values) and all(isinstance(key, str) for key in keys):
                return dict(zip(map(str, keys), values, strict=True))
        return value

    def _called(self, node: ast.Call, variables: Sections, *, depth: int) -> object:
        """Return the sections that a call makes; its text where it makes none that is known."""
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in self.functions and depth < _MOST_CALLS:
            return self.made(name, depth=depth + 1)
        if name == "recompute_layers" and len(node.args) == 1:  # of evenflow's adapter
            return {"layers": self._value(node.args[0], variables, depth=depth)}
        of = node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr == "Config" else None
        if not name.endswith("Config") and of is None:
            return ast.unparse(node)
        own = _POLICIES.get(of.id, {}) if isinstance(of, ast.Name) else {}
        keywords = {pair.arg: self._value(pair.value, variables, depth=depth) for pair in node.keywords if pair.arg}
        return {**own, **keywords}


def _set(target: ast.expr, value: object, variables: Sections) -> None:
    """Set a variable, or ``config.section.key`` in the sections of one."""
    path: list[str] = []
    while isinstance(target, ast.Attribute):
        path.insert(0, target.attr)
        target = target.value
    if not isinstance(target, ast.Name):
        return
    section: object = variables
    for key in (target.id, *path)[:-1]:
        section = section.setdefault(key, {}) if isinstance(section, dict) else None
    if isinstance(section, dict):
        section[(target.id, *path)[-1]] = value
