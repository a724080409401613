"""The words of a shell script with the values of its variables filled in, as far as the text tells them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeAlias

from evenflow.errors import InputError
from evenflow.fields import read_text
from evenflow.language import _
from evenflow.targets.megatron_family.shell_arithmetic import arithmetic
from evenflow.targets.megatron_family.shell_inputs import WORDS, script_inputs
from evenflow.targets.megatron_family.shell_script import MOST_CHARACTERS, Statement, parse_script
from evenflow.targets.megatron_family.shell_tests import BranchTests, verdict
from evenflow.targets.megatron_family.shell_words import POSITIONAL, Length, Opaque, Plain, Reference, Sum, Word

COMPUTED, UNKNOWN = -1, -2
_OUTSIDE = -3
"""Positions from here downwards are outside of the text that is read."""
_MOST_READINGS = 3
"""Most readings of a text, the first included."""
_MOST_SOURCES = 8
"""Most files that source each other."""
_FUNCTION = re.compile(r"^\s*(?:function\s+[\w-]+|[\w-]+\s*\(\s*\))", re.MULTILINE)
_SELF = r"(?:\$0|\$\{0\}|\$BASH_SOURCE|\$\{BASH_SOURCE(?:\[0\])?(?::-\$0)?\})"
_OWN_FOLDER = re.compile(
    rf"\$\(\s*(?:cd\s+(?:--\s+)?\"?\$\(\s*)?dirname\s+(?:--\s+)?\"?{_SELF}\"?\s*\)"
    r"(?:\"?\s*(?:>\s*/dev/null\s*(?:2>&1)?\s*)?(?:&&|;)\s*pwd(?:\s+-P)?\s*\))?|\$\{BASH_SOURCE(?:\[0\])?%/\*\}"
)
"""The folder of the script, as scripts find it."""
_SHELLS = ("bash", "sh", "zsh", "dash")
_SCRIPT_OPTION = re.compile(r"-[a-z]*c")


class ShellMark(NamedTuple):
    """Where a character comes from."""

    spot: int
    """Its position in the script; `COMPUTED`, or `UNKNOWN` where only a run knows what stands there."""
    start: int
    """Start of what stands for it in the list of words that it belongs to: itself, or a variable."""
    end: int
    is_conditional: bool = False
    """Whether it stands there in a condition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A word, or the value of a variable, after its variables were filled in."""

    text: str
    marks: tuple[ShellMark, ...]
    """One for each character."""
    start: int
    """Start of what stands for it in its list of words, quotation marks included."""
    end: int
    is_known: bool = True
    """Whether no part is only known when the script runs; such a part stands as it is written."""
    num_readings: int = 1
    """How often the shell reads it: once more behind ``eval`` and ``bash -c``."""

    @property
    def is_conditional(self) -> bool:
        """Whether some of it stands there in a condition."""
        return any(mark.is_conditional for mark in self.marks)


def run_through(
    statements: Iterable[Statement], script: str, *, file: str
) -> tuple[list[tuple[Text, ...]], Mapping[str, tuple[Text, ...] | Text]]:
    """Return the words of every command of a script, and the last values of its variables.

    A test of numbers or texts that are known is decided. A variable that is set in another condition to another value
    than before is not known, since which of the two it has is not; flags that are set in one are kept and marked.

    Raises:
        InputError: the filled-in words are longer than any script.
    """
    evaluation = _Evaluation(script, file)
    evaluation.begin()
    return evaluation.run(statements), evaluation.values


def split_text(text: Text) -> list[Text]:
    """Return the words of a text, as the shell splits the value of a variable.

    What it has from another variable belongs to the words where that variable stands.
    """
    return [
        replace(
            text,
            text=text.text[found.start() : found.end()],
            marks=text.marks[found.start() : found.end()],
            start=text.marks[found.start()].start,
            end=text.marks[found.end() - 1].end,
            is_known=all(mark.spot != UNKNOWN for mark in text.marks[found.start() : found.end()]),
        )
        for found in re.finditer(r"\S+", _masked(text))
    ]


def _read_again(words: Sequence[Text]) -> Text | None:
    """Return the text that a command hands to the shell once more; None where it does not."""
    if words[0].text == "eval":
        return _in_one(tuple(words[1:])) if len(words) > 1 else None
    for shell, option, script in zip(words, words[1:], words[2:], strict=False):
        if shell.text.rpartition("/")[2] in _SHELLS and _SCRIPT_OPTION.fullmatch(option.text):
            return script if script.text else None
    return None


class _Evaluation:
    """The values of the variables at a position of the script."""

    def __init__(self, script: str, file: str, *, inside: Text | None = None) -> None:
        """Begin a script; `inside` is the text of which it is all, where that is a word of another."""
        self.script = script
        self.inside = inside
        self.file = file
        self.values: dict[str, tuple[Text, ...] | Text] = {}
        self.left = 5 * MOST_CHARACTERS
        """Characters that may still be filled in, so that variables within variables come to an end."""
        self.inputs = script_inputs()
        self.given: dict[str, Values] = {}
        """Values that variables have from outside."""
        self.has_words = False
        """Whether the words behind the script's name are known."""
        self.sources: tuple[Path, ...] = ()
        """The files that are sourced now, each by the one before."""

    def begin(self) -> None:
        """Take what the script has from outside.

        Raises:
            InputError: it has words behind its name, and functions, which have words of their own.
        """
        inputs = self.inputs
        self.given = {name: _foreign(_outside_text(value)) for name, value in inputs.values.items()}
        self.values.update(self.given)
        if inputs.words is not None:
            if function := _FUNCTION.search(self.script):
                raise InputError(
                    value=function[0].strip(),
                    rule=_("must be a script without functions, whose $1 and $@ are their own"),
                    place=f"{self.file}, --args",
                    remedy=_("write the values in place of the words, or give variables with --set"),
                )
            self._set_words(tuple(map(_outside_text, inputs.words)))

    def _set_words(self, words: tuple[Text, ...]) -> None:
        """Let these be the words behind the script's name."""
        self.has_words = True
        for number in range(1, 10):
            self.values.pop(str(number), None)
        self.values |= {str(number): word for number, word in enumerate(words[:9], 1)}
        self.values |= {WORDS: words, "*": words}

    def run(self, statements: Iterable[Statement]) -> list[tuple[Text, ...]]:
        """Go through statements; return the words of every command."""
        tests = BranchTests()
        commands: list[tuple[Text, ...]] = []
        for statement in statements:
            runs = tests.runs(statement.branches)
            if statement.tests is not None:
                tests.met(statement.tests, runs and verdict(self.tested(statement.words)))
            if runs is False:
                continue
            if statement.name:
                self.assign(statement, is_conditional=runs is None)
            elif words := tuple(self.texts(statement.words)):
                commands += self._ran(words, is_conditional=runs is None)
        return commands

    def _ran(self, words: tuple[Text, ...], *, is_conditional: bool) -> list[tuple[Text, ...]]:
        """Return the commands that come of one: also those of a sourced file, or of a text that is read once more."""
        first = words[0].text
        if first in ("source", ".") and len(words) > 1:
            return self._sourced(words[1], is_conditional=is_conditional)
        if first == "set" and len(words) > 1 and words[1].text == "--":
            self._change_words(words[2:], is_conditional=is_conditional)
        elif first == "shift" and self.has_words:
            count = int(words[1].text) if len(words) > 1 and words[1].text.isdecimal() else 1
            before = self.values[WORDS]
            self._change_words(before[count:] if isinstance(before, tuple) else (), is_conditional=is_conditional)
        else:
            return self.commands_in(words)
        return []

    def _change_words(self, words: tuple[Text, ...], *, is_conditional: bool) -> None:
        if not is_conditional:
            self._set_words(words)
            return
        self.has_words = False  # which of them the script has is not known
        for name in POSITIONAL:
            self.values.pop(name, None)

    def _sourced(self, name: Text, *, is_conditional: bool) -> list[tuple[Text, ...]]:
        """Return the commands of a file that the script sources, beside which it is; its variables are set here.

        A file that cannot be read, or that is sourced in a condition whose outcome is not known, is noted.
        """
        path = self._path(name.text) if name.is_known and not is_conditional else None
        if path is None or path in self.sources or len(self.sources) == _MOST_SOURCES:
            self.inputs.missing.append(name.text)
            return []
        try:
            text = read_text(path)
            statements = parse_script(text, file=str(path))
        except InputError:
            self.inputs.missing.append(name.text)
            return []
        inner = _Evaluation(text, str(path))
        inner.given, inner.has_words, inner.left = self.given, self.has_words, self.left - len(text)
        inner.sources = (*self.sources, path)
        before = {variable: _foreign(value) for variable, value in self.values.items()}
        inner.values = before | self.given
        before = dict(inner.values)
        commands = inner.run(statements)
        for variable, value in inner.values.items():
            if value is not before.get(variable):
                self.values[variable] = _foreign(value)
        self.left = inner.left
        return [tuple(_foreign_word(word) for word in command) for command in commands]

    def _path(self, name: str) -> Path | None:
        """Return the regular file of this name beside the script; None where there is none."""
        folder = Path(self.file).parent
        try:
            path = (folder / name).resolve()
            return path if path.is_file() else None
        except (OSError, ValueError):
            return None

    def assign(self, statement: Statement, *, is_conditional: bool) -> None:
        """Set a variable. Flags that are set in a condition join those that are there, and are marked."""
        old = self.values.get(statement.name)
        new: tuple[Text, ...] | Text
        if statement.is_array:
            new = tuple(self.texts(statement.words))
            new = (*_as_list(old), *new) if statement.appends else new
        else:
            new = self._whole(statement.words[0], split=False)[0]
            if statement.appends and isinstance(old, Text):
                is_known = old.is_known and new.is_known
                new = replace(old, text=old.text + new.text, marks=old.marks + new.marks, is_known=is_known)
            elif statement.appends:
                new = (*_as_list(old), new)
        if not is_conditional or _is_same(old, new):
            self.values[statement.name] = new
        elif isinstance(new, Text) and not _has_flags(new):
            self.values[statement.name] = self._raw(statement.words[0], f"${statement.name}")
        else:
            before, after = _as_words(old), _as_words(new)
            texts = [word.text for word in before]
            more = after[len(before) :] if [word.text for word in after[: len(before)]] == texts else after
            self.values[statement.name] = (*before, *map(_conditional, more))

    def commands_in(self, words: tuple[Text, ...], *, depth: int = 1) -> list[tuple[Text, ...]]:
        """Return a command, or those that are in the text which ``eval`` or ``bash -c`` reads once more.

        Raises:
            InputError: that text has quotation marks that are never closed.
        """
        text = _read_again(words)
        if text is None or depth == _MOST_READINGS:
            return [words]
        inner = _Evaluation(text.text, self.file, inside=text)
        inner.values = {name: self._for_inside(value) for name, value in self.values.items()}
        inner.has_words = self.has_words
        inner.left = self.left
        commands: list[tuple[Text, ...]] = []
        for statement in parse_script(text.text, file=self.file):
            if statement.name:
                inner.assign(statement, is_conditional=bool(statement.branches))
            elif own := tuple(map(inner.as_outside, inner.texts(statement.words))):
                commands += inner.commands_in(own, depth=depth + 1)
        self.left = inner.left
        return commands

    def as_outside(self, word: Text) -> Text:
        """Return a word of a text that is read once more with its places in the script."""
        text = self.inside
        assert text is not None

        last = len(text.marks) - 1

        def outside(mark: ShellMark) -> ShellMark:
            if mark.start <= _OUTSIDE:  # a word of a list that is set outside
                spot, start, end = map(_turned, (mark.spot, mark.start, mark.end))
                return ShellMark(spot, start, end, mark.is_conditional)
            own = text.marks[min(mark.spot if mark.spot >= 0 else mark.start, last)]
            spot = own.spot if mark.spot >= 0 else _turned(mark.spot)
            return own._replace(spot=spot, is_conditional=mark.is_conditional or own.is_conditional)

        is_set_outside = word.start <= _OUTSIDE
        return replace(
            word,
            marks=tuple(map(outside, word.marks)),
            start=_turned(word.start) if is_set_outside else text.marks[min(word.start, last)].start,
            end=_turned(word.end) if is_set_outside else text.marks[min(max(word.start, word.end - 1), last)].end,
            num_readings=text.num_readings + 1,
        )

    def _for_inside(self, value: tuple[Text, ...] | Text) -> tuple[Text, ...] | Text:
        """Return the value of a variable for a text that is read once more, told apart from what is set in that."""
        if not isinstance(value, Text):
            return tuple(text for word in value if isinstance(text := self._for_inside(word), Text))
        outside = value if self.inside is None else self.as_outside(value)
        marks = (
            mark._replace(spot=_turned(mark.spot), start=_turned(mark.start), end=_turned(mark.end))
            for mark in outside.marks
        )
        return replace(outside, marks=tuple(marks), start=_turned(outside.start), end=_turned(outside.end))

    def tested(self, words: Sequence[Word]) -> list[str | None]:
        """Return the words of a test; behind ``-z`` and ``-n`` a variable that nothing has set is empty.

        That is what ``${NAME:-default}`` takes it for as well.
        """
        whole = [self.whole(word) for word in words]
        if len(whole) == 4 and whole[1] in ("-f", "-e", "-r", "-s"):  # a file that is there is known to be
            is_there = whole[2] is not None and self._path(whole[2]) is not None
            return [whole[0], "-n", "there" if is_there else None, whole[3]]
        return [
            "" if text is None and before in ("-z", "-n") and self._is_unset(word) else text
            for before, text, word in zip([None, *whole], whole, words, strict=False)
        ]

    def _is_unset(self, word: Word) -> bool:
        """Return whether a word is a variable alone, which nothing before has set."""
        parts = [part for part in word.parts if not isinstance(part, Plain) or part.text]
        if len(parts) != 1 or not isinstance(parts[0], Reference) or parts[0].name in self.values:
            return False
        return self.has_words or parts[0].name not in POSITIONAL

    def whole(self, word: Word) -> str | None:
        """Return the text of one word, whatever blanks are in it; None where only a run knows it."""
        text = self._whole(word, split=False)[0]
        return text.text if text.is_known else None

    def texts(self, words: Iterable[Word]) -> Iterator[Text]:
        """Yield the words that the shell would make of `words`."""
        for word in words:
            yield from self._whole(word, split=True)

    def _raw(self, word: Word | Reference, text: str) -> Text:
        marks = (ShellMark(UNKNOWN, word.start, word.end),) * len(text)
        return Text(text=text, marks=marks, start=word.start, end=word.end, is_known=False)

    def _whole(self, word: Word, *, split: bool) -> list[Text]:
        """Return the words that become of `word`; without `split`, exactly one."""
        parts = [part for part in word.parts if not isinstance(part, Plain) or part.text]
        if split and len(parts) == 1 and isinstance(parts[0], Reference) and self._is_list(parts[0]):
            return self._referenced(parts[0], split=True)
        found = [_Building(word)]
        is_left_out = split
        """Whether all there is are references outside of quotation marks, which are empty."""
        for part in word.parts:
            match part:
                case Plain():
                    is_left_out = False
                    spots = range(part.start, part.start + len(part.text))
                    pieces = [self._text(part.text, [ShellMark(spot, spot, spot + 1) for spot in spots])]
                case Sum() | Length() | Opaque():
                    pieces = [self._computed(part)]
                case Reference():
                    is_left_out = is_left_out and not part.is_quoted
                    pieces = self._referenced(part, split=split)
            for index, piece in enumerate(pieces):
                if index:
                    found.append(_Building(word))
                found[-1].add(piece)
        if is_left_out and not any(building.letters for building in found):
            return []
        return [building.text() for building in found]

    def _text(self, text: str, marks: Sequence[ShellMark], *, is_known: bool = True) -> Text:
        start, end = (marks[0].start, marks[-1].end) if marks else (0, 0)
        return Text(text=text, marks=tuple(marks), start=start, end=end, is_known=is_known)

    def _referenced(self, part: Reference, *, split: bool) -> list[Text]:
        """Return the words that stand for a variable; the first and the last join what is beside them."""
        value = self._value(part.name)
        if value is None and part.default is not None:
            value = self._whole(part.default, split=False)[0]
        if value is None and self.has_words and part.name in POSITIONAL:
            return [self._text("", [])]
        is_whole = isinstance(value, Text) and not value.is_known and not self._is_list(part)
        if value is None or is_whole:
            return [self._raw(part, self.script[part.start : part.end])]
        self.left -= sum(len(text.text) + 1 for text in _as_list(value))
        if self.left < 0:
            rule = _("must not fill variables into each other without end")
            raise InputError(rule=rule, place=self.file)
        if not isinstance(value, Text):
            if not split:
                return [_in_one(value)]
            return list(value) if part.is_quoted else [piece for text in value for piece in _split_if_several(text)]
        if not self._is_list(part):
            marks = tuple(mark._replace(start=part.start, end=part.end) for mark in value.marks)
            return [replace(value, marks=marks)]
        return [value] if part.is_quoted or not split else split_text(value)

    def _is_list(self, part: Reference) -> bool:
        """Return whether a variable has several words, or a flag: then its own text is the list that they are in."""
        value = self.values.get(part.name)
        if not isinstance(value, Text):
            return value is not None
        return value.text.startswith("-") or any(map(str.isspace, _masked(value)))

    def _computed(self, part: Sum | Length | Opaque) -> Text:
        """Return the value of arithmetic, or the text as it is written."""
        number = None
        if isinstance(part, Sum):
            number = arithmetic(part.text, self._plain_value)
        elif isinstance(part, Length):
            number = self._length(part.name)
        elif _OWN_FOLDER.fullmatch(self.script, part.start, part.end):
            folder = str(Path(self.file).resolve().parent)
            return self._text(folder, [ShellMark(COMPUTED, part.start, part.end)] * len(folder))
        text = self.script[part.start : part.end] if number is None else str(number)
        spot = UNKNOWN if number is None else COMPUTED
        return self._text(text, [ShellMark(spot, part.start, part.end)] * len(text), is_known=number is not None)

    def _length(self, name: str) -> int | None:
        """Return the number of words of an array; None where only a run knows it."""
        value = self._value(name)
        if not isinstance(value, tuple) or any(word.is_conditional or not word.is_known for word in value):
            return None
        return len(value)

    def _value(self, name: str) -> "Values | None":
        """Return the value of a variable, and note that the script reads it where it is from outside."""
        value = self.values.get(name)
        if value is not None and value is self.given.get(name):
            self.inputs.was_read.add(name)
        elif self.has_words and name in POSITIONAL:
            self.inputs.was_read.add(WORDS)
        return value

    def _plain_value(self, name: str) -> str:
        value = self._value(name)
        return value.text if isinstance(value, Text) else name


class _Building:
    """A word that is being put together."""

    def __init__(self, word: Word) -> None:
        self.word = word
        self.letters: list[str] = []
        self.marks: list[ShellMark] = []
        self.is_known = True

    def add(self, text: Text) -> None:
        if text.text:
            self.letters.append(text.text)
        self.marks.extend(text.marks)
        self.is_known = self.is_known and text.is_known

    def text(self) -> Text:
        return Text(
            text="".join(self.letters),
            marks=tuple(self.marks),
            start=self.word.start,
            end=self.word.end,
            is_known=self.is_known,
        )


Values: TypeAlias = tuple[Text, ...] | Text
"""The words of an array, or the value of a plain variable."""


def _outside_text(text: str) -> Text:
    """Return a text that stands nowhere in a script."""
    return Text(text=text, marks=(ShellMark(COMPUTED, COMPUTED, COMPUTED),) * len(text), start=COMPUTED, end=COMPUTED)


def _foreign(value: Values) -> Values:
    """Return a value of another file, which has no place in the script."""
    return _foreign_word(value) if isinstance(value, Text) else tuple(map(_foreign_word, value))


def _foreign_word(word: Text) -> Text:
    marks = tuple(
        mark._replace(spot=UNKNOWN if mark.spot == UNKNOWN else COMPUTED, start=COMPUTED, end=COMPUTED)
        for mark in word.marks
    )
    return replace(word, marks=marks, start=COMPUTED, end=COMPUTED)


def _turned(position: int) -> int:
    """Return a position outside of a text for use inside, and the other way round; what is no position stays."""
    return position if position in (COMPUTED, UNKNOWN) else _OUTSIDE - position


def _split_if_several(text: Text) -> list[Text]:
    return split_text(text) if any(map(str.isspace, _masked(text))) or not text.text else [text]


def _masked(text: Text) -> str:
    """Return a text in which what only a run knows has no blanks."""
    if text.is_known:
        return text.text
    return "".join("$" if mark.spot == UNKNOWN else each for each, mark in zip(text.text, text.marks, strict=True))


def _in_one(words: tuple[Text, ...]) -> Text:
    """Return the words of an array with blanks between them; each keeps its quotation marks as its own."""
    marks: list[ShellMark] = []
    for word in words:
        inner = [word.marks[0]._replace(start=word.start), *word.marks[1:]] if word.marks else []
        marks += [
            *inner[:-1],
            *(mark._replace(end=word.end) for mark in inner[-1:]),
            ShellMark(COMPUTED, word.end, word.end),
        ]
    text = "".join(f"{word.text} " for word in words)
    is_known = all(word.is_known for word in words)
    start, end = (words[0].start, words[-1].end) if words else (0, 0)
    return Text(text=text, marks=tuple(marks), start=start, end=end, is_known=is_known)


def _conditional(word: Text) -> Text:
    """Return a word that stands in a condition."""
    return replace(word, marks=tuple(mark._replace(is_conditional=True) for mark in word.marks))


def _has_flags(text: Text) -> bool:
    return any(word.startswith("-") for word in _masked(text).split())


def _as_words(value: tuple[Text, ...] | Text | None) -> tuple[Text, ...]:
    """Return a list of flags as its words; nothing for a value that has none."""
    if isinstance(value, Text):
        return tuple(split_text(value)) if _has_flags(value) else ()
    return value or ()


def _as_list(value: tuple[Text, ...] | Text | None) -> tuple[Text, ...]:
    return () if value is None else (value,) if isinstance(value, Text) else value


def _is_same(old: tuple[Text, ...] | Text | None, new: tuple[Text, ...] | Text) -> bool:
    """Return whether two values are known to have the same text."""
    if isinstance(old, Text) and isinstance(new, Text):
        return old.is_known and new.is_known and old.text == new.text
    if isinstance(old, tuple) and isinstance(new, tuple):
        return [word.text for word in old] == [word.text for word in new]
    return False
