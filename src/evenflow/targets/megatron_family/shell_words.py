"""The words of a shell script, each with its place in the text; nothing is run."""

import re
from dataclasses import dataclass
from typing import TypeAlias

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.targets.megatron_family.shell_inputs import WORDS

METACHARACTERS = frozenset(" \t\r\n;&|<>()")
"""Characters that end a word."""
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
POSITIONAL = "@*123456789"
"""Names of the words behind the script's name."""
JOINED_LINES = re.compile(r"\\\r?\n")
_BRACED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*|[1-9@*])(\[[@*]\])?(:?[-=]|(?=\}|:?\?))")
_LENGTH = re.compile(r"\$\{#([A-Za-z_][A-Za-z0-9_]*)\[[@*]\]\}")
_ENDS_QUOTED = '"\\`$'
_ENDS_PLAIN = "'\"\\`$ \t\r\n;&|<>()"
_DEEPEST = 8
"""Most default values within each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """Characters that stand for themselves, in a row from `start`."""

    text: str
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The value of a variable: ``$NAME``, ``${NAME:-default}`` or ``${NAME[@]}``, or of words behind the script's name:
    ``$1`` or ``$@``.
    """

    name: str
    start: int
    end: int
    is_quoted: bool
    default: "Word | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """Arithmetic: ``$((A * 8))``."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """The number of words of an array: ``${#NAME[@]}``, or behind the script's name: ``$#``."""

    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Opaque:
    """Something whose value is only known when the script runs, such as ``$(hostname)`` or ``$$``."""

    start: int
    end: int


Part: TypeAlias = Plain | Reference | Sum | Length | Opaque


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A word without its quotation marks."""

    parts: tuple[Part, ...]
    start: int
    end: int


def line_of(text: str, position: int) -> int:
    """Return the line of a position, from 1."""
    return text.count("\n", 0, position) + 1


class WordReader:
    """Reads words from a position in a script; raises InputError for quotation marks that are never closed."""

    def __init__(self, text: str, file: str, *, position: int = 0, end: int | None = None, depth: int = 0) -> None:
        self.text = text
        self.file = file
        self.position = position
        self.end = len(text) if end is None else end
        self._depth = depth

    @property
    def next(self) -> str:
        """The character at the position; empty at the end."""
        return self.text[self.position] if self.position < self.end else ""

    def skip_to(self, what: str) -> None:
        """Go to the next occurrence of a text, or to the end."""
        found = self.text.find(what, self.position, self.end)
        self.position = self.end if found < 0 else found

    def word(self) -> Word:
        """Return the word at the position, which may be empty."""
        start = self.position
        parts: list[Part] = []
        while self.next and self.next not in METACHARACTERS:
            if self.next == "'":
                self.position += 1
                begin = self.position
                self.skip_to("'")
                if not self.next:
                    raise self.unclosed("'", begin)
                parts.append(Plain(text=self.text[begin : self.position], start=begin))
                self.position += 1
            elif self.next == '"':
                parts.extend(self._quoted())
            else:
                parts.extend(self._characters(is_quoted=False))
        return Word(parts=tuple(parts), start=start, end=self.position)

    def _quoted(self) -> list[Part]:
        begin = self.position
        self.position += 1
        found: list[Part] = [Plain(text="", start=self.position)]
        while self.next != '"':
            if not self.next:
                raise self.unclosed('"', begin)
            found.extend(self._characters(is_quoted=True))
        self.position += 1
        return found

    def _characters(self, *, is_quoted: bool) -> list[Part]:
        """Return what stands at the position outside of single quotation marks."""
        start = self.position
        if self.next == "\\":
            if joined := JOINED_LINES.match(self.text, start, self.end):
                self.position = joined.end()
                return []
            self.position = min(start + 2, self.end)
            escaped = self.text[start + 1 : self.position]
            is_kept = is_quoted and escaped not in tuple('$`"\\')
            return [Plain(text="\\" + escaped, start=start) if is_kept else Plain(text=escaped, start=start + 1)]
        if self.next == "`":
            self.position += 1
            self.skip_to("`")
            self.position = min(self.position + 1, self.end)
            return [Opaque(start=start, end=self.position)]
        if self.next == "$":
            return [self._expansion(is_quoted=is_quoted)]
        stop = _ENDS_QUOTED if is_quoted else _ENDS_PLAIN
        self.position += 1
        while self.next and self.next not in stop:
            self.position += 1
        return [Plain(text=self.text[start : self.position], start=start)]

    def _expansion(self, *, is_quoted: bool) -> Part:
        start = self.position
        if self.text.startswith("$(", start):
            self._skip_pairs("(", ")")
            if self.text.startswith("$((", start) and self.text.startswith("))", self.position - 2):
                return Sum(text=self.text[start + 3 : self.position - 2], start=start, end=self.position)
            return Opaque(start=start, end=self.position)
        if self.text.startswith("${", start):
            return self._braces(is_quoted=is_quoted)
        if name := NAME.match(self.text, start + 1, self.end):
            self.position = name.end()
            return Reference(name=name[0], start=start, end=name.end(), is_quoted=is_quoted)
        self.position += 1
        if self.next and self.next in "@*#?$!-0123456789":
            letter = self.next
            self.position += 1
            if letter == "#":
                return Length(name=WORDS, start=start, end=self.position)
            if letter in POSITIONAL:
                return Reference(name=letter, start=start, end=self.position, is_quoted=is_quoted)
            return Opaque(start=start, end=self.position)
        return Plain(text="$", start=start)

    def _braces(self, *, is_quoted: bool) -> Part:
        start = self.position
        self._skip_pairs("{", "}")
        if length := _LENGTH.fullmatch(self.text, start, self.position):
            return Length(name=length[1], start=start, end=self.position)
        found = _BRACED.match(self.text, start, self.position)
        if found is None:
            return Opaque(start=start, end=self.position)
        default = self._default(found.end(), self.position - 1) if found[3] else None
        return Reference(name=found[1], start=start, end=self.position, is_quoted=is_quoted, default=default)

    def _default(self, start: int, end: int) -> Word:
        """Return all between two positions as one word."""
        if self._depth == _DEEPEST:
            raise InputError(rule=_("is too deep inside of other braces"), place=self.place(start))
        reader = WordReader(self.text, self.file, position=start, end=end, depth=self._depth + 1)
        parts: list[Part] = []
        while reader.next:
            parts.extend(reader._quoted() if reader.next == '"' else reader._characters(is_quoted=True))
        return Word(parts=tuple(parts), start=start, end=end)

    def _skip_pairs(self, opening: str, closing: str) -> None:
        """Go behind the bracket that closes the next opening one."""
        start, depth = self.position, 0
        while self.next:
            depth += (self.next == opening) - (self.next == closing)
            self.position += 1
            if depth == 0 and self.text[self.position - 1] == closing:
                return
        raise self.unclosed(opening, start)

    def unclosed(self, mark: str, position: int) -> InputError:
        """Return the refusal of a mark that is opened at a position and never closed."""
        return InputError(value=mark, rule=_("must be closed"), place=self.place(position))

    def place(self, position: int) -> str:
        """Return the name of the file and the line, for messages."""
        return _("{file}, line {line}", file=self.file, line=line_of(self.text, position))
