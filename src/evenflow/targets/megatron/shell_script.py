"""The statements of a shell script: its commands and the variables it sets; nothing is run."""

import re
from dataclasses import dataclass

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.targets.megatron.shell_words import JOINED_LINES, METACHARACTERS, NAME, Opaque, Word, WordReader

MOST_CHARACTERS = 200_000
"""Most characters of a script."""
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_REDIRECTION = re.compile(r"&?[<>]+[-&|]?")
_OPENING = {"if", "for", "while", "until", "case", "select"}
_CLOSING = {"fi", "done", "esac"}
_BETWEEN = {"then", "else", "elif", "do", "{", "}", "!", "time", "function"}
_DECLARING = {"export", "declare", "local", "readonly", "typeset"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A command, or the assignment of a variable."""

    words: tuple[Word, ...]
    """Words of the command or the array; the one word of a plain variable."""
    name: str = ""
    """The variable; empty: a command."""
    is_array: bool = False
    appends: bool = False
    """Whether it is ``+=``."""
    is_conditional: bool = False
    """Whether it runs only in some cases: in an ``if``, a loop, or behind ``&&``."""


def parse_script(text: str, *, file: str) -> list[Statement]:
    """Return the statements of a script in their order; raises InputError for quotation marks that are never closed."""
    if len(text) > MOST_CHARACTERS:
        rule = _("must have at most {most:,} characters", most=MOST_CHARACTERS)
        raise InputError(value=len(text), rule=rule, place=file)
    return _Script(text, file).statements()


class _Script:
    """What was read before a position."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.reader = WordReader(text, file)
        self.found: list[Statement] = []
        self.words: list[Word] = []
        self.depth = 0
        """Conditions and loops around the position."""
        self.follows = False
        """Whether the command is behind ``&&`` or ``||``."""
        self.is_declared = False
        """Whether the command began with a word such as ``export``."""
        self.ends: list[str] = []
        """The lines that end the texts which start behind this line."""

    def statements(self) -> list[Statement]:
        reader = self.reader
        while self._skip_blanks(" \t\r"):
            if reader.next == "#":
                reader.skip_to("\n")
            elif self.text.startswith("&>", reader.position) or reader.next in "<>":
                self._redirection()
            elif reader.next in "\n;&|()":
                self._end_command()
            elif not self.words and (found := _ASSIGNMENT.match(self.text, reader.position)):
                self._assignment(found)
            else:
                self._command_word()
        self._flush()
        return self.found

    def _skip_blanks(self, blanks: str) -> bool:
        """Go to the next character that is no blank; return whether there is one."""
        while self.reader.next:
            if self.reader.next in blanks:
                self.reader.position += 1
            elif joined := JOINED_LINES.match(self.text, self.reader.position):
                self.reader.position = joined.end()
            else:
                return True
        return False

    def _flush(self) -> None:
        if self.words:
            self.found.append(Statement(words=tuple(self.words), is_conditional=self.depth > 0 or self.follows))
        self.words, self.is_declared = [], False

    def _end_command(self) -> None:
        self._flush()
        reader = self.reader
        pair = self.text[reader.position : reader.position + 2]
        self.follows = pair in ("&&", "||")
        reader.position += 2 if self.follows else 1
        if pair.startswith("\n"):
            for end in self.ends:
                found = re.compile(rf"^\t*{re.escape(end)}\r?$", re.MULTILINE).search(self.text, reader.position)
                reader.position = found.end() if found else len(self.text)
            self.ends = []

    def _redirection(self) -> None:
        """Skip a redirection with its file; keep what ends a text that follows."""
        reader = self.reader
        if self.words and self.words[-1].end == reader.position and self.text[self.words[-1].start].isdigit():
            self.words.pop()
        operator = _REDIRECTION.match(self.text, reader.position)
        assert operator is not None
        reader.position = operator.end()
        if self._skip_blanks(" \t\r") and reader.next not in METACHARACTERS:
            word = reader.word()
            if operator[0] in ("<<", "<<-"):
                self.ends.append(self.text[word.start : word.end].strip("'\"\\"))

    def _command_word(self) -> None:
        word = self.reader.word()
        bare = self.text[word.start : word.end]
        if self.words:
            self.words.append(word)
        elif bare in _OPENING:
            self.depth += 1
            if bare in ("for", "select"):
                self._loop_variable()
        elif bare in _CLOSING:
            self.depth = max(0, self.depth - 1)
        elif bare in _DECLARING:
            self.is_declared = True
        elif bare not in _BETWEEN and not (self.is_declared and bare.startswith("-")):
            self.words.append(word)

    def _loop_variable(self) -> None:
        """Set the variable of a loop to a value that only the run knows."""
        if self._skip_blanks(" \t\r") and (name := NAME.match(self.text, self.reader.position)):
            value = Opaque(start=name.start(), end=name.end())
            word = Word(parts=(value,), start=name.start(), end=name.end())
            self.found.append(Statement(name=name[0], words=(word,)))
            self.reader.position = name.end()

    def _assignment(self, found: re.Match[str]) -> None:
        self.reader.position = found.end()
        is_array = self.reader.next == "("
        words = self._array_words() if is_array else [self.reader.word()]
        self.found.append(
            Statement(
                words=tuple(words),
                name=found[1],
                is_array=is_array,
                appends=bool(found[2]),
                is_conditional=self.depth > 0 or self.follows,
            )
        )

    def _array_words(self) -> list[Word]:
        reader, words = self.reader, list[Word]()
        start = reader.position
        reader.position += 1
        while self._skip_blanks(" \t\r\n"):
            if reader.next == ")":
                reader.position += 1
                return words
            if reader.next == "#":
                reader.skip_to("\n")
            elif reader.next in METACHARACTERS:
                reader.position += 1
            else:
                words.append(reader.word())
        raise reader.unclosed("(", start)
