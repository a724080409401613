"""A user's script with the overrides of a Hydra configuration that a plan decides, otherwise byte for byte the same."""

import re
from collections.abc import Iterable, Mapping, Sequence

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.targets.megatron_family.edit import FlagScript, ScriptChange, edited_script, plain_layout
from evenflow.targets.megatron_family.flags import Flags
from evenflow.targets.megatron_family.settings import Setting, override_text, override_word
from evenflow.targets.megatron_family.shell_arguments import Flag
from evenflow.targets.megatron_family.shell_overrides import decoded_override
from evenflow.targets.megatron_family.shell_values import Text, run_through

_OVERRIDE = re.compile(r"\+{0,2}[A-Za-z_][\w./@]*=.*", re.DOTALL)


def apply_overrides(text: str, file: str, *, anchor: str, settings: Mapping[str, Setting]) -> str:
    """Return a script with an override for each of `settings`, by its name, which may begin with plus signs.

    An override that is there keeps its plus signs; new ones come before `anchor`. A value that comes from a variable
    of its own is changed where the variable is set.

    Raises:
        InputError: the script has no override of `anchor`, has one of `settings` in a condition, or cannot be changed
            without changing another override.
    """
    script = _OverrideScript(text, file, anchor=anchor)
    if all(flag.key != anchor for flag in script.flags):
        raise InputError(rule=_("must have the override {name}", name=anchor), place=file)
    return edited_script(script, {name: (override_text(name, value),) for name, value in settings.items()}, ())


def told_overrides(text: str, file: str) -> set[str]:
    """Return the names of all overrides in the commands of a script, without plus signs."""
    return {flag.key for flag in _OverrideScript(text, file, anchor="").flags}


class _OverrideScript(FlagScript):
    """A script with overrides, and what is still to be changed in it."""

    def _words(self) -> Sequence[Text]:
        commands, _variables = run_through(self.statements, self.text, file=self.file)
        return [word for command in commands for word in command]

    def _flags(self) -> Iterable[Flag]:
        for word in self.words:
            if _OVERRIDE.fullmatch(word.text):
                yield Flag(key=self.key(word.text.partition("=")[0]), word=word, values=())

    @staticmethod
    def key(name: str) -> str:
        return name.lstrip("+")

    def _replaced(self, flag: Flag, values: Sequence[str], wanted: Flags) -> ScriptChange | None:
        (value,) = values
        (old,) = flag.own_values
        if _meaning(old.text) == _meaning(value):
            return None
        word = flag.word
        if old.marks and not word.start <= old.marks[0].spot < word.end:  # from a variable
            sharing = self.sharing([mark.spot for mark in old.marks])
            alike = {self.key(name) for name, texts in wanted.items() if _meaning(texts[0]) == _meaning(value)}
            most = sum(other.key in alike and other.word in sharing for other in self.flags)
            change = self._value(old, _meaning(value), most_words=most)
            if change.end <= word.start or change.start >= word.end:
                return change
        start, end = self._own_extent(word)
        return ScriptChange(start, end, self._piece(word.text.partition("=")[0], values, start))

    def _own_extent(self, word: Text) -> tuple[int, int]:
        """Return where a word begins and ends, without the quotation mark of a text in which it is first or last."""
        start, end = word.start, word.end
        raw = self.text[start:end]
        if raw[0] in "'\"" and raw.count(raw[0]) % 2:
            start += 1
        if raw[-1] in "'\"" and raw.count(raw[-1]) % 2:
            end -= 1
        return start, end

    def _piece(self, name: str, values: Sequence[str], position: int) -> str:
        if self._is_a_word(position):
            return override_word(name, values[0])
        return self._quoted(f"{name}={_meaning(values[0])}", position)


def _meaning(value: str) -> str:
    """Return one text for values that mean the same: without quotation marks, of a layout only letters and bars."""
    decoded = decoded_override(value)
    if isinstance(decoded, list):
        return f"[{','.join(decoded)}]"
    return plain_layout(decoded) if isinstance(decoded, str) else value.lower()
