"""Everything evenflow raises on purpose.

```text
EvenflowError
├── RunError         a rank of a run failed: its message (exit status 1)
├── MismatchError    the A/A check found work that came out differently the second time (exit status 5)
├── InputError       a value the caller gave breaks a rule (exit status 2)
│   ├── FileError        a file cannot be read or written
│   └── ScheduleError    an order of work that is incomplete or can never finish
└── Interrupted      stopped by the user before there was any plan (exit status 130)
```
"""

import errno
import reprlib
from typing import cast

from evenflow.language import _

_LONGEST = {"place": 400, "rule": 1200, "value": 240, "remedy": 600}
"""Most characters of each part of a message: what a user gave can be of any length."""


class EvenflowError(Exception):
    """The root: what a caller catches to handle every deliberate error."""


class InputError(EvenflowError):
    """A value breaks a rule: "PLACE must RULE, got VALUE; REMEDY".

    `rule` begins with "must" and reads on from `place`: "--ranks" and "must be at most the number of layers (80)". What
    should not be there begins with "is": "is an unknown field". A `value` of None is not shown. `remedy` is an order:
    "use fewer ranks".
    """

    def __init__(self, *, value: object = None, rule: str, place: str, remedy: str = "") -> None:
        self.value = value
        self.rule = rule
        self.place = place
        self.remedy = remedy
        sentence = self.sentence
        remedy = cut(remedy, _LONGEST["remedy"])
        super().__init__(_("{sentence}; {remedy}", sentence=sentence, remedy=remedy) if remedy else sentence)

    @property
    def message(self) -> str:
        """The whole message, which knows its English."""
        return cast("str", self.args[0])

    @property
    def sentence(self) -> str:
        """What is wrong, without the remedy."""
        place, rule = cut(self.place, _LONGEST["place"]), cut(self.rule, _LONGEST["rule"])
        if self.value is None:
            return _("{place} {rule}", place=place, rule=rule)
        return _("{place} {rule}, got {value!r}", place=place, rule=rule, value=_AsShown(shown(self.value)))


class FileError(InputError):
    """A file cannot be read or written: "cannot read FILE: no such file; REMEDY"."""

    def __init__(self, path: object, *, reason: str, action: str = "read", remedy: str = "") -> None:
        self.action = action
        super().__init__(value=str(path), rule=reason, place=str(path), remedy=remedy)

    @classmethod
    def from_os(cls, path: object, error: Exception, *, action: str = "read", remedy: str = "") -> "FileError":
        """Say in plain words what the operating system, or a decoder of text, has against a file."""
        return cls(path, action=action, reason=_plain_reason(error), remedy=remedy)

    @property
    def sentence(self) -> str:
        """What is wrong, without the remedy."""
        file, reason = cut(str(self.value), _LONGEST["place"]), cut(self.rule, _LONGEST["rule"])
        if self.action == "write":
            return _("cannot write {file}: {reason}", file=file, reason=reason)
        return _("cannot read {file}: {reason}", file=file, reason=reason)


def _plain_reason(error: Exception) -> str:
    """The reason of a failed read or write, as the end of a sentence."""
    known: dict[type[Exception], str] = {
        FileNotFoundError: _("no such file"),
        IsADirectoryError: _("it is a folder"),
        NotADirectoryError: _("not a directory"),
        PermissionError: _("permission denied"),
    }
    if type(error) in known:
        return known[type(error)]
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return _("no space left on device")
    if isinstance(error, UnicodeDecodeError):
        return _("not UTF-8 text ({reason})", reason=error.reason)
    reason = getattr(error, "strerror", None) or str(error)
    return reason[:1].lower() + reason[1:]


class _Shown(reprlib.Repr):
    """`repr` of what a user may give: never long, and of integers with any number of digits."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxlist, self.maxtuple, self.maxdict = 4, 40, 40, 20
        self.maxstring = self.maxother = _LONGEST["value"]

    def repr_int(self, x: int, level: int) -> str:
        """Return an integer, or about how many digits it has."""
        if abs(x) < 10**40:
            return repr(x)
        about = _("(an integer of about {digits} digits)", digits=round(x.bit_length() * 0.30103))
        return f"{'-' if x < 0 else ''}{about}"


class _AsShown(str):
    """A text that `repr` leaves as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def shown(value: object) -> str:
    """Return `value` as a message shows it: like `repr`, and never long.

    >>> shown([1, "two"]), len(shown("x" * 10_000)) < 300
    ("[1, 'two']", True)
    """
    return cut(_Shown().repr(value), _LONGEST["value"])


def cut(text: str, length: int) -> str:
    """Return `text`, its middle left out where it is longer than `length` characters."""
    half = length // 2
    return text if len(text) <= length else f"{text[:half]} … {text[-half:]}"


class ScheduleError(InputError):
    """An order of actions that is incomplete, misplaced or deadlocked; `grid` shows the fault."""

    def __init__(self, *, value: object = None, rule: str, place: str, remedy: str = "", grid: str = "") -> None:
        super().__init__(value=value, rule=rule, place=place, remedy=remedy)
        self.grid = grid

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message}\n{self.grid}" if self.grid else message


class RunError(EvenflowError):
    """A process of a run failed; the message names its rank and says why."""


class MismatchError(EvenflowError):
    """Re-executed work did not give the same bits; the message names rank, stage, microbatch and step."""


class Interrupted(EvenflowError):
    """The user stopped the work before a first plan was found."""
