"""The statements of a shell script: its commands and the variables it sets; nothing is run."""

import re
from dataclasses import dataclass

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.targets.megatron_family.shell_words import JOINED_LINES, METACHARACTERS, NAME, Opaque, Word, WordReader

MOST_CHARACTERS = 100_000
"""Most characters of a script."""
_DEEPEST = 50
"""Most blocks within each other, and most commands in a row behind ``&&``."""
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_REDIRECTION = re.compile(r"&?[<>]+[-&|]?")
_OPENING = {"if", "for", "while", "until", "case", "select"}
_CLOSING = {"fi", "done", "esac"}
_BRANCHING = {"then", "else", "elif"}
_BETWEEN = {"do", "{", "}", "time", "function"}
_DECLARING = {"export", "declare", "local", "readonly", "typeset"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A branch of a block: 0 is what runs where its first test holds, and so on; the last one may be the ``else``.

    A loop, or a choice among patterns, is a block with one branch whose test is never met.
    """

    block: int
    number: int


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
    branches: tuple[Branch, ...] = ()
    """The branches that it is in, of ``if``, of loops, and behind ``&&`` and ``||``."""
    tests: Branch | None = None
    """The branch that runs where this command succeeds."""


def parse_script(text: str, *, file: str) -> list[Statement]:
    """Return the statements of a script in their order; raises InputError for quotation marks that are never closed."""
    if len(text) > MOST_CHARACTERS:
        rule = _("must have at most {most:,} characters", most=MOST_CHARACTERS)
        raise InputError(value=len(text), rule=rule, place=file)
    return _Script(text, file).statements()


@dataclass(slots=True)
class _Block:
    """A block around a position."""

    number: int
    branch: int = 0
    is_testing: bool = False
    """Whether the position is in the test of the branch."""


class _Script:
    """What was read before a position."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.reader = WordReader(text, file)
        self.found: list[Statement] = []
        self.words: list[Word] = []
        self.blocks: list[_Block] = []
        self.num_blocks = 0
        self.follows: tuple[Branch, ...] = ()
        """The branches that the command is in as it is behind ``&&`` or ``||``."""
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

    def _new_block(self) -> int:
        self.num_blocks += 1
        return self.num_blocks

    def _branches(self) -> tuple[Branch, ...]:
        inside = (Branch(block=each.number, number=each.branch) for each in self.blocks if not each.is_testing)
        return (*inside, *self.follows)

    def _flush(self, tests: Branch | None = None) -> None:
        block = self.blocks[-1] if self.blocks else None
        if block is not None and block.is_testing:
            tests = Branch(block=block.number, number=block.branch)
        if self.words:
            self.found.append(Statement(words=tuple(self.words), branches=self._branches(), tests=tests))
        self.words, self.is_declared = [], False

    def _end_command(self) -> None:
        reader = self.reader
        pair = self.text[reader.position : reader.position + 2]
        if pair in ("&&", "||"):
            block = self._new_block()
            self._flush(Branch(block=block, number=0))
            number = int(pair == "||")
            is_mixed = any(branch.number != number for branch in self.follows)
            if is_mixed or len(self.follows) == _DEEPEST:  # not told apart
                self.follows = (Branch(block=self._new_block(), number=0),)
            else:
                self.follows = (*self.follows, Branch(block=block, number=number))
        else:
            self._flush()
            self.follows = ()
        reader.position += 2 if pair in ("&&", "||") else 1
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
        if self.words and self.text.startswith("[[", self.words[0].start):  # a comparison, which is not computed
            part = Opaque(start=operator.start(), end=operator.end())
            self.words.append(Word(parts=(part,), start=part.start, end=part.end))
            return
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
            if len(self.blocks) == _DEEPEST:
                rule = _("is too deep inside of other blocks")
                raise InputError(value=bare, rule=rule, place=self.reader.place(word.start))
            self.blocks.append(_Block(self._new_block(), is_testing=bare == "if"))
            if bare in ("for", "select"):
                self._loop_variable()
        elif bare in _CLOSING:
            self.blocks = self.blocks[:-1]
        elif bare in _BRANCHING:
            self._next_branch(bare)
        elif bare in _DECLARING:
            self.is_declared = True
        elif bare not in _BETWEEN and not (self.is_declared and bare.startswith("-")):
            self.words.append(word)

    def _next_branch(self, word: str) -> None:
        if self.blocks:
            self.blocks[-1].is_testing = word == "elif"
            self.blocks[-1].branch += word != "then"

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
                branches=self._branches(),
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
