"""Which branches of a shell script run, as far as its tests compare numbers and texts that the script tells."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence

from evenflow.targets.megatron_family.shell_script import Branch

_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "-gt": operator.gt,
    "-ge": operator.ge,
    "-lt": operator.lt,
    "-le": operator.le,
    "-eq": operator.eq,
    "-ne": operator.ne,
}
_NUMBER = re.compile(r"-?[0-9]{1,15}")
_PATTERN = re.compile(r"[*?\[]")


class BranchTests:
    """The tests that were met so far."""

    def __init__(self) -> None:
        self._values: dict[int, dict[int, bool | None]] = {}

    def met(self, branch: Branch, value: bool | None) -> None:
        """Note the value of the test of a branch; a second command in the same test makes it unknown."""
        tests = self._values.setdefault(branch.block, {})
        tests[branch.number] = None if branch.number in tests else value

    def runs(self, branches: Sequence[Branch]) -> bool | None:
        """Return whether all branches run; None where that is not known."""
        answers = [self._runs(branch) for branch in branches]
        return False if False in answers else None if None in answers else True

    def _runs(self, branch: Branch) -> bool | None:
        tests = self._values.get(branch.block, {})
        before = [tests.get(number) for number in range(branch.number)]
        if True in before:
            return False
        own = tests.get(branch.number) if branch.number in tests or branch.number == 0 else True
        return False if own is False else None if None in (*before, own) else True


def verdict(words: Sequence[str | None]) -> bool | None:
    """Return the value of a test such as ``[ 2 -gt 1 ]``; None for any other command, and for what is not known.

    >>> verdict(["[[", "2", "-gt", "1", "]]"]), verdict(["[", "-z", "x", "]"]), verdict(["grep", "x"])
    (True, False, None)
    """
    if words[:1] == ["!"]:
        value = verdict(words[1:])
        return None if value is None else not value
    if len(words) < 3 or (words[0], words[-1]) not in (("[", "]"), ("[[", "]]")):
        return None
    inside = words[1:-1]
    if inside[0] == "!":
        value = _value(inside[1:])
        return None if value is None else not value
    return _value(inside)


def _value(words: Sequence[str | None]) -> bool | None:
    known = [word for word in words if word is not None]
    if len(known) < len(words):
        return None
    match known:
        case ["-z", text]:
            return not text
        case ["-n", text]:
            return bool(text)
        case [left, sign, right] if sign in _COMPARISONS:
            is_number = _NUMBER.fullmatch(left) and _NUMBER.fullmatch(right)
            return _COMPARISONS[sign](int(left), int(right)) if is_number else None
        case [left, ("=" | "==" | "!=") as sign, right]:
            return None if _PATTERN.search(right) else (left == right) == (sign != "!=")
    return None
