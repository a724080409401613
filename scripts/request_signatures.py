"""A griffe extension: functions of one request are documented with the fields of the request as their keywords."""

from collections.abc import Iterator
from typing import Any

import griffe


class RequestSignatures(griffe.Extension):
    """Gives every function under ``@takes(Request)`` the fields of the request as its parameters."""

    def on_package(self, *, pkg: griffe.Module, **_rest: Any) -> None:
        """Change the functions of a package, once all of its modules are known."""
        for module in _modules(pkg):
            for function in module.functions.values():
                if function.is_alias:
                    continue
                for decorator in function.decorators:
                    text = str(decorator.value)
                    if text.startswith("takes("):
                        name = text.removeprefix("takes(").removesuffix(")")
                        function.parameters = griffe.Parameters(*_parameters(module[name]))


def _parameters(request: Any) -> list[griffe.Parameter]:
    """Return the fields of a request: those that need no keyword, then those that must be given, then the others."""
    fields: dict[str, griffe.Parameter] = {}
    for home in (*reversed(request.mro()), request):
        for attribute in home.attributes.values():
            value = attribute.value
            called = isinstance(value, griffe.ExprCall)
            options = _keywords(value) if called else {"default": value}
            if called and str(value.function) == "optional":
                options.setdefault("default", "None")
            takes_place = str(options.get("kw_only")) == "False"
            fields[attribute.name] = griffe.Parameter(
                attribute.name,
                annotation=attribute.annotation,
                kind=griffe.ParameterKind.positional_or_keyword if takes_place else griffe.ParameterKind.keyword_only,
                default=options.get("default"),
            )
    in_place = griffe.ParameterKind.positional_or_keyword
    return sorted(fields.values(), key=lambda field: (field.kind is not in_place, field.default is not None))


def _keywords(call: Any) -> dict[str, Any]:
    """Return the keywords of a call that makes a field."""
    return {option.name: option.value for option in call.arguments if isinstance(option, griffe.ExprKeyword)}


def _modules(module: griffe.Module) -> Iterator[griffe.Module]:
    yield module
    for below in module.modules.values():
        if not below.is_alias:
            yield from _modules(below)
