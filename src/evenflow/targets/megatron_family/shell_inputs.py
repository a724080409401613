"""What a shell script has from outside: variables of its environment, and the words behind its name."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from evenflow.errors import InputError
from evenflow.language import _

WORDS = "@"
"""Name of the words behind a script's name among those that were read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptInputs:
    """What scripts have from outside, and what they made of it."""

    values: Mapping[str, str] = field(default_factory=dict)
    """Values of variables, by name."""
    words: tuple[str, ...] | None = None
    """The words behind the script's name; None: they are not known."""
    was_read: set[str] = field(default_factory=set)
    """Names whose value from outside a script has read, and `WORDS`."""
    missing: list[str] = field(default_factory=list)
    """Files that a script sources and that could not be read, as it names them."""

    def check_read(self) -> None:
        """Raise InputError for a value that no script has read: without it the answer would be the same."""
        for name in self.values:
            if name not in self.was_read:
                raise InputError(
                    value=name,
                    rule=_("must be a variable that the script reads before it sets it"),
                    place="--set",
                    remedy=_("leave it out, or use the name that is in the script"),
                )
        if self.words is not None and WORDS not in self.was_read:
            raise InputError(
                value=" ".join(self.words), rule=_("must be words that the script reads, as $1 or $@"), place="--args",
                remedy=_("leave it out"),
            )  # fmt: skip


_inputs: ContextVar[ScriptInputs | None] = ContextVar("script_inputs", default=None)


@contextmanager
def given_to_scripts(inputs: ScriptInputs) -> Iterator[None]:
    """Let all scripts that are read in the block have these inputs."""
    token = _inputs.set(inputs)
    try:
        yield
    finally:
        _inputs.reset(token)


def script_inputs() -> ScriptInputs:
    """Return what scripts have from outside now; nothing where nobody says."""
    return _inputs.get() or ScriptInputs()
