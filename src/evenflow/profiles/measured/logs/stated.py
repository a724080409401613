"""What a log states of the run's configuration: names with values, in whichever of the usual forms they are printed.

The forms are lines of dots (Megatron-LM, DeepSpeed), YAML, JSON, and Python's dictionaries and calls. A name counts
wherever it stands; the last value that is not None does.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from evenflow.profiles.logs.log_lines import PRINTED

_VALUE = r"""'[^'\n]{0,200}'|"[^"\n]{0,200}"|\[[^\]\n]{0,1000}\]|[^\s,{}()\[\]'"]{1,200}"""
_NOTHING = ("None", "null", "~", "")
_WHOLE = re.compile(r"[0-9]{1,15}")
_MOST_TEXT = 1000


class Names:
    """The names that are looked for, as one pattern."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(names)
        choice = "|".join(sorted(self.names, key=len, reverse=True))
        self._pattern = re.compile(rf"(?<![\w.\-])['\"]?({choice})['\"]?\s*[:=]\s*({_VALUE})")
        self._any = re.compile(rf"(?<![\w\-])(?:{choice})(?![\w\-])")

    def pairs(self, line: str) -> Iterator[tuple[str, str]]:
        """Yield names in a line with the texts of their values."""
        if self._any.search(line) is None:
            return
        printed = PRINTED.search(line)
        if printed is not None and printed[1] in self.names:
            yield printed[1], printed[2].strip()[:_MOST_TEXT]
            return
        for match in self._pattern.finditer(line):
            yield match[1], match[2].strip("'\"")


@dataclass(slots=True)
class Stated:
    """Texts of values by name; every method gives None for what is not stated, or not in the form that is asked for."""

    texts: dict[str, str] = field(default_factory=dict)

    def state(self, name: str, text: str) -> None:
        """Keep a value; one that is nothing only where there is no other."""
        if text in _NOTHING:
            self.texts.setdefault(name, "")
        else:
            self.texts[name] = text

    def __contains__(self, name: str) -> bool:
        return name in self.texts

    def is_nothing(self, name: str) -> bool:
        """Whether a value is stated, and is nothing or off."""
        return self.texts.get(name) in ("", "False", "false", "none", "0")

    def whole(self, *names: str) -> int | None:
        """The first of the names that is stated as an integer above zero."""
        for name in names:
            text = self.texts.get(name, "").replace("_", "")
            if _WHOLE.fullmatch(text) and int(text):
                return int(text)
        return None

    def flag(self, *names: str) -> bool | None:
        """The first of the names that is stated as true or false."""
        for name in names:
            text = self.texts.get(name, "").lower()
            if text in ("true", "false"):
                return text == "true"
        return None

    def word(self, *names: str) -> str | None:
        """The first of the names that is stated as anything but nothing."""
        return next((self.texts[name] for name in names if self.texts.get(name)), None)

    def words(self, name: str) -> tuple[str, ...]:
        """The words of a list."""
        return tuple(re.findall(r"[\w.-]+", self.texts.get(name, "")))

    def on(self, *names: str) -> str | None:
        """Those of the names that are stated as true, as a text that names them."""
        return ", ".join(f"{name}=True" for name in names if self.flag(name)) or None
