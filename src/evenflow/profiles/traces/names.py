"""Names of layers, and the scopes of a trace that they match."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from evenflow.errors import InputError
from evenflow.language import _

HEAD, BODY, TAIL = "head", "body", "tail"

_PREFIX = re.compile(r"^(?:nn\.Module: )?(?:\d+-)?")
_SUFFIX = re.compile(r"[_.\-\s#:]*\d+$")
_MOST_SHOWN = 12
_MOST_NAMES = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerNames:
    """Names of layers; a scope is one of them when its name contains the name. The defaults are MindFormers' llama.

    Of several names that a scope contains, the longest counts. Head names add up, and so do tail names; each body name
    is a layer kind of its own.
    """

    head: tuple[str, ...] = ("LlamaEmbedding",)
    body: tuple[str, ...] = ("LLamaDecodeLayer",)
    tail: tuple[str, ...] = ("lm_head-Linear", "LlamaRMSNorm")
    given_by: str = "--{role}"
    """What the user writes to name the layers of a role, for messages."""

    def __post_init__(self) -> None:
        every = [*self.head, *self.body, *self.tail]
        if not self.body:
            raise InputError(
                value=self.body, rule=_("must have at least one name for the body"), place=_("layer names")
            )
        for name in every:
            if not name.strip() or every.count(name) > 1:
                rule = _("must have every name once") if name.strip() else _("must not be empty")
                raise InputError(value=name, rule=rule, place=_("layer names"))

    def of(self, role: str) -> tuple[str, ...]:
        """Return the names of head, body or tail."""
        return {HEAD: self.head, BODY: self.body, TAIL: self.tail}[role]


class Match(NamedTuple):
    """The layer that a scope matches."""

    role: str
    name: str
    """Layer name that the scope contains."""


class NameMatcher:
    """Matches scope names and remembers them, since a trace repeats each thousands of times."""

    _MOST_REMEMBERED = 100_000
    takes_functions = False
    """Whether a scope may also be a function of Python, of which a trace with stacks has all calls."""

    def __init__(self, names: LayerNames) -> None:
        matches = [Match(role, name) for role in (HEAD, BODY, TAIL) for name in names.of(role)]
        self._matches = sorted(matches, key=lambda match: -len(match.name))
        self._known: dict[str, Match | None] = {}

    def __call__(self, scope: str) -> Match | None:
        """Return the layer that `scope` is, or None."""
        if scope in self._known:
            return self._known[scope]
        if len(self._known) >= self._MOST_REMEMBERED:
            self._known.clear()
        layer = next((match for match in self._matches if match.name in scope), None)
        self._known[scope] = layer
        return layer


def is_numbered(scope: str) -> bool:
    """Whether the name tells one layer from another, as ``46-DecodeLayer`` and ``nn.Module: Layer_3`` do.

    >>> is_numbered("46-LLamaDecodeLayer"), is_numbered("decoder layer")
    (True, False)
    """
    return any(character.isdigit() for character in scope)


def count_name(counts: Counter[Any], key: object) -> None:
    """Count a name, unless there are so many that they only cost memory."""
    if key in counts or len(counts) < _MOST_NAMES:
        counts[key] += 1


def names_there(counts: Mapping[str, int]) -> str:
    """Return scope names for a message, without their numbers, most frequent first.

    >>> names_there({"0-Layer": 8, "1-Layer": 8, "nn.Module: Linear_0": 2})
    "'Layer' (16), 'Linear' (2)"
    """
    totals: dict[str, int] = {}
    for scope, count in counts.items():
        name = _SUFFIX.sub("", _PREFIX.sub("", scope)) or scope
        totals[name] = totals.get(name, 0) + count
    ordered = sorted(totals.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{name[:60]!r} ({count:,})" for name, count in ordered[:_MOST_SHOWN])
    more = len(ordered) - _MOST_SHOWN
    return _("{shown} and {more:,} more", shown=shown, more=more) if more > 0 else shown or _("none")
