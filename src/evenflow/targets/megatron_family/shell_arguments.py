"""The arguments of Megatron-LM in a shell script, or in a file that has flags alone."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.targets.megatron_family.arguments import (
    ALIASES,
    KNOWN,
    LISTS,
    SWITCHES,
    Arguments,
    decoded,
    is_relevant,
    line_place,
)
from evenflow.targets.megatron_family.shell_script import parse_script
from evenflow.targets.megatron_family.shell_values import Text, run_through, split_text
from evenflow.targets.megatron_family.shell_words import line_of

_OF_TRAINING = {"num_layers", "pipeline_model_parallel_size", "pipeline_model_parallel_layout"}
_QUIET = {"echo", "printf", "print", ":", "mkdir", "tee", "cat"}
"""Commands that run no training."""
_FURTHER_FLAGS = re.compile(r"\$@|\$\*|\[@\]|\[\*\]|ARGS|OPTS|FLAGS|PARAMS|OPTIONS", re.IGNORECASE)
"""What words that stand for further flags have in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """A flag of a command."""

    key: str
    """The name under which Megatron-LM keeps it."""
    word: Text
    """The flag, with its value where that is behind an equals sign."""
    values: tuple[Text, ...]
    """The words behind it."""

    @property
    def texts(self) -> list[str]:
        """All words behind it."""
        _name, sign, value = self.word.text.partition("=")
        return [value, *(text.text for text in self.values)] if sign else [text.text for text in self.values]

    @property
    def own_values(self) -> tuple[Text, ...]:
        """The words that are its values: one for most flags, none for a switch unless that is true or false."""
        if self.key in LISTS:
            return self.values
        name, sign, value = self.word.text.partition("=")
        if not sign:
            has_value = self.key not in SWITCHES or self.texts[:1] in (["true"], ["false"], ["True"], ["False"])
            return self.values[:1] if has_value else ()
        marks = self.word.marks[len(name) + 1 :]
        start = marks[0].start if marks else self.word.end
        return (replace(self.word, text=value, marks=marks, start=start, end=self.word.end),)


def shell_arguments(text: str, *, file: str, known: frozenset[str] = KNOWN) -> Arguments:
    """Return the arguments of the training command in a script, or of a file with flags alone.

    Raises:
        InputError: there are none, several commands disagree, or a quotation mark is never closed.
    """
    return _arguments(training_words(text, file=file), text, file, known)


def training_words(text: str, *, file: str) -> list[Text]:
    """Return the words of the command that trains; where no command has flags, those of all variables.

    Raises:
        InputError: as `shell_arguments` does.
    """
    commands, values = run_through(parse_script(text, file=file), text, file=file)
    programs = [
        list(command)
        for command in commands
        if not command[0].text.startswith("-") and command[0].text not in _QUIET and _is_training(command)
    ]
    if programs:
        wanted = _arguments(programs[-1], text, file).values
        if any(_arguments(words, text, file).values != wanted for words in programs[:-1]):
            raise InputError(
                value=[line_of(text, words[0].start) for words in programs],
                rule=_("must have one training command, or several with the same pipeline"),
                place=_("{file}, lines", file=file),
            )
        return programs[-1]
    loose = [word for command in commands if command[0].text.startswith("-") for word in command]
    for value in values.values():
        loose.extend(split_text(value) if isinstance(value, Text) else value)
    if not _is_training(loose):
        rule = _("must have flags of Megatron-LM, such as --pipeline-model-parallel-size")
        raise InputError(rule=rule, place=file)
    return loose


def flags_of(words: Sequence[Text]) -> Iterator[Flag]:
    """Yield the flags among words, each with the words up to the next one."""
    starts = [index for index, word in enumerate(words) if word.text.startswith("--")]
    for start, end in zip(starts, [*starts[1:], len(words)], strict=False):
        key = words[start].text[2:].partition("=")[0].replace("-", "_")
        yield Flag(key=ALIASES.get(key, key), word=words[start], values=tuple(words[start + 1 : end]))


def _is_training(words: Sequence[Text]) -> bool:
    return any(flag.key in _OF_TRAINING for flag in flags_of(words))


def _arguments(words: Sequence[Text], script: str, file: str, known: frozenset[str] = KNOWN) -> Arguments:
    newlines = [index for index, letter in enumerate(script) if letter == "\n"]

    def line(word: Text) -> int | None:
        """Return the line of a word; None where it stands in no line of this file."""
        return bisect_right(newlines, word.start - 1) + 1 if word.start >= 0 else None

    def place(word: Text) -> str:
        return line_place(file, line(word))

    values: dict[str, object] = {}
    lines: dict[str, int] = {}
    undecided: dict[str, str] = {}
    unknown = [
        f"{place(word)}: {word.text}"
        for word in words
        if not word.is_known and not word.text.startswith("--") and _FURTHER_FLAGS.search(word.text)
    ]
    for flag in flags_of(words):
        if flag.key in known and (found := line(flag.word)) is not None:
            lines[flag.key] = found
        if flag.key in known and not flag.word.is_conditional:
            values[flag.key] = decoded(flag.key, flag.texts)
        elif flag.key in known or is_relevant(flag.key):
            name = flag.word.text.partition("=")[0]
            undecided[flag.key] = " ".join((flag.word.text, *(value.text for value in flag.own_values)))
            shown = _("{name} in a condition", name=name) if flag.key in known else name
            unknown.append(f"{place(flag.word)}: {shown}")
    return Arguments(values=values, file=file, lines=lines, unknown=tuple(unknown), undecided=undecided)
