"""A user's training script with the flags that a plan decides, otherwise byte for byte the same."""

import shlex
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Plan
from evenflow.targets.megatron_family.arguments import ALIASES, PIPELINE_SIZE, Arguments, is_printed
from evenflow.targets.megatron_family.baseline import mtp_layers, told_microbatches
from evenflow.targets.megatron_family.flag_keys import has_flag_keys
from evenflow.targets.megatron_family.flags import DECIDED_FLAGS, DELAY_FLAG, LAYOUT_FLAG, PAIR_FLAG, Flags
from evenflow.targets.megatron_family.layout import format_plan, write_out
from evenflow.targets.megatron_family.shell_arguments import Flag, flags_of, shell_arguments, training_words
from evenflow.targets.megatron_family.shell_script import parse_script
from evenflow.targets.megatron_family.shell_values import Text

ANCHOR = "--pipeline-model-parallel-size"
"""New flags come before this one."""

_MOST_CHANGES = 40


class ScriptChange(NamedTuple):
    """A text in the place of some characters of a script."""

    start: int
    end: int
    text: str


def apply_flags(
    text: str,
    file: str,
    plan: Plan,
    flags: Flags,
    *,
    arguments: Arguments | None = None,
    decided: Sequence[str] = (),
    sets_layers: bool = False,
) -> str:
    """Return a script with `flags`, which are what `plan` is in Megatron-LM, and without others that a plan decides.

    A value that comes from a variable of its own is changed where the variable is set. `arguments` are those that the
    script asks for, where its framework has defaults of its own; `decided` are flags of the framework that a plan
    decides too; `sets_layers` says that the number of layers of the network is written as well.

    Raises:
        InputError: the text is no script, is of another network or number of microbatches than the plan, sets a flag
            in a condition, or cannot be changed without changing another flag.
    """
    if is_printed(text):
        raise InputError(rule=_("must be a script: this is what a run printed"), place=file)
    if has_flag_keys(text):
        rule = _("must be a script: this has flags as keys of YAML")
        raise InputError(rule=rule, place=file, remedy=_("write the flags of the plan by hand"))
    arguments = arguments or shell_arguments(text, file=file)
    check_same_run(arguments, plan)
    if PIPELINE_SIZE in arguments.undecided:
        arguments.num_ranks()  # which only a condition decides
    if PIPELINE_SIZE not in arguments.values:
        raise InputError(rule=_("must have the flag {flag}", flag=ANCHOR), place=arguments.file)
    wanted = {flag: values for flag, values in flags.items() if sets_layers or flag != "--num-layers"}
    for flag in wanted:
        if _key(flag) == _key(LAYOUT_FLAG):
            wanted[flag] = (format_plan(plan, mtp_layers=mtp_layers(arguments)),)
    alone = () if PAIR_FLAG in flags else (DELAY_FLAG,)
    return edited_script(FlagScript(text, file, anchor=ANCHOR), wanted, (*DECIDED_FLAGS, *alone, *decided))


def edited_script(before: "FlagScript", wanted: Flags, decided: Sequence[str]) -> str:
    """Return a script with the settings `wanted` and without others of `decided`; raises InputError as `apply_flags`
    does.
    """
    script = before
    for _step in range(_MOST_CHANGES):
        change = script.next_change(wanted, decided)
        if change is None:
            _check_others(before, script, (*decided, *wanted), wanted)
            _check_syntax(before.text, script.text, before.file, wanted)
            return script.text
        try:
            script = script.after(change)
        except InputError:
            break  # the values cannot stand where the old ones did
    raise by_hand(before.file, ", ".join(wanted))


def check_same_run(arguments: Arguments, plan: Plan) -> None:
    """Raise InputError unless the run has the layers and, where it tells them, the microbatches of the plan."""
    num_layers = plan.num_layers - plan.mtp_layers
    if arguments.values.get("num_layers", num_layers) != num_layers:
        raise arguments.error("num_layers", _("must be {count}, as in the plan", count=num_layers))
    if plan.mtp_layers and mtp_layers(arguments) != plan.mtp_layers:
        raise arguments.error("mtp_num_layers", _("must be {count}, as in the plan", count=plan.mtp_layers))
    found = told_microbatches(arguments, plan.num_ranks)
    if found is not None and found != plan.num_microbatches:
        rule = _("must give the {count} microbatches of the plan", count=plan.num_microbatches)
        raise InputError(
            value=_("{found} microbatches", found=found), rule=rule, place=arguments.place("global_batch_size")
        )


class FlagScript:
    """A script with flags, and what is still to be changed in it."""

    def __init__(self, text: str, file: str, *, anchor: str) -> None:
        """Read a script, in which new settings come before the one that is named `anchor`."""
        self.text = text
        self.file = file
        self.anchor = anchor
        self.statements = parse_script(text, file=file)
        self.words = self._words()
        self.flags = list(self._flags())

    def after(self, change: ScriptChange) -> Self:
        """Return the script with a change."""
        text = self.text[: change.start] + change.text + self.text[change.end :]
        return type(self)(text, self.file, anchor=self.anchor)

    def _words(self) -> Sequence[Text]:
        """Return the words among which the settings are."""
        return training_words(self.text, file=self.file)

    def _flags(self) -> Iterable[Flag]:
        return flags_of(self.words)

    @staticmethod
    def key(name: str) -> str:
        """Return the name under which a setting is kept, whose name in the script is `name`."""
        return _key(name)

    def next_change(self, wanted: Flags, decided: Sequence[str]) -> ScriptChange | None:
        """Return the first change that is needed; None where there is none. Changes are made one by one, since each
        may leave a line to another.
        """
        names = {self.key(flag): flag for flag in (*decided, *wanted)}
        if sum(flag.key in names for flag in self.flags) > _MOST_CHANGES:
            raise by_hand(self.file, ", ".join(wanted))
        present: set[str] = set()
        for flag in self.flags:
            name = names.get(flag.key)
            if name is None:
                continue
            if flag.word.is_conditional:
                raise by_hand(self.file, name)
            present.add(name)
            if flag.word.start < 0 or any(value.start < 0 for value in flag.own_values):
                self._check_same(flag, wanted.get(name), name)
                continue
            change = self._replaced(flag, wanted[name], wanted) if name in wanted else self._removed(flag)
            if change is not None:
                return change
        new = {flag: values for flag, values in wanted.items() if flag not in present}
        return self._inserted(new) if new else None

    def _check_same(self, flag: Flag, values: Sequence[str] | None, name: str) -> None:
        """Raise InputError unless a flag that stands in another file, or comes from outside, has these values."""
        olds = [plain_layout(old.text) for old in flag.own_values]
        if values is None or olds != [plain_layout(value) for value in values]:
            raise InputError(
                rule=_("must stand in this file to be changed: it comes from another, or from outside"),
                place=f"{self.file}: {name}",
                remedy=_("write the flags of the plan there by hand"),
            )

    def _replaced(self, flag: Flag, values: Sequence[str], wanted: Flags) -> ScriptChange | None:
        """Return the change of a flag's values; None where they are the same already."""
        olds = flag.own_values
        if [plain_layout(old.text) for old in olds] == [plain_layout(value) for value in values]:
            return None
        if len(values) == 1 == len(olds):
            return self._value(olds[0], values[0])
        if not olds:
            raise by_hand(self.file, flag.word.text)
        start, end = olds[0].start, olds[-1].end
        return ScriptChange(start, end, " ".join(self._quoted(value, start) for value in values))

    def _value(self, old: Text, value: str, *, most_words: int = 1) -> ScriptChange:
        """Change a value where its characters are set, unless other words have them too; else where it is used.

        `most_words` are the words that are to have the new value.
        """
        spots = [mark.spot for mark in old.marks]
        sharing = len(self.sharing(spots))
        is_in_a_row = spots == list(range(spots[0], spots[0] + len(spots))) if spots and spots[0] >= 0 else False
        if is_in_a_row and sharing <= most_words:
            start, end = spots[0], spots[-1] + 1
            around = self.text[start - 1 : start], self.text[end : end + 1]
            if around[0] == around[1] and around[0] in "'\"":
                is_whole = self._reads_again and any(
                    (word.start, word.end) == (start - 1, end + 1)
                    for statement in self.statements
                    for word in statement.words
                )
                if is_whole:  # the next reading would see no quotation marks
                    return ScriptChange(start - 1, end + 1, self._quoted(value, start))
                return ScriptChange(start, end, value)
            return ScriptChange(start, end, self._quoted(value, start))
        return ScriptChange(old.start, old.end, self._quoted(value, old.start))

    def sharing(self, spots: Sequence[int]) -> list[Text]:
        """Return the words that have one of these characters of the script."""
        return [word for word in self.words if any(mark.spot in spots for mark in word.marks)]

    @property
    def _reads_again(self) -> bool:
        """Whether the shell reads the command once more, behind ``eval`` or ``bash -c``."""
        return any(word.num_readings > 1 for word in self.words)

    def _quoted(self, value: str, position: int) -> str:
        """Return a value, safe for its place and for every time that the shell reads it.

        In a text of several words that is read once it has no mark that a shell knows there.
        """
        text = self._text_around(position)
        if not self._reads_again:
            return shlex.quote(value) if text is None else plain_layout(value)
        if text is None:
            return shlex.quote(shlex.quote(value))
        return f'"{value}"' if text.startswith("'") and value != shlex.quote(value) else shlex.quote(value)

    def _is_a_word(self, position: int) -> bool:
        """Return whether a word at a position is read once, and is not part of a text of several words."""
        return not self._reads_again and self._text_around(position) is None

    def _text_around(self, position: int) -> str | None:
        """Return the text with several words around a position, of a variable or of a command that is read again."""
        for statement in self.statements:
            for word in statement.words:
                if word.start <= position < word.end:
                    raw = self.text[word.start : word.end]
                    if statement.name and not statement.is_array:
                        return raw if _has_words(raw) else None
                    return raw if self._reads_again and any(map(str.isspace, raw)) else None
        return None

    def _removed(self, flag: Flag) -> ScriptChange:
        values = flag.own_values
        start, end = flag.word.start, values[-1].end if values else flag.word.end
        line_start = self.text.rfind("\n", 0, start) + 1
        line_end = self.text.find("\n", end)
        line_end = len(self.text) if line_end < 0 else line_end
        before, after = self.text[line_start:start], self.text[end:line_end]
        if before.strip():
            return ScriptChange(start - (len(before) - len(before.rstrip(" \t"))), end, "")
        if after.strip() not in ("", "\\"):
            return ScriptChange(start, end + len(after) - len(after.lstrip(" \t")), "")
        previous = self.text[:line_start].rstrip()
        if after.strip() or not previous.endswith("\\"):
            return ScriptChange(line_start, min(line_end + 1, len(self.text)), "")
        return ScriptChange(len(previous[:-1].rstrip()), end, "")  # the last line of a command: the one before ends it

    def _piece(self, name: str, values: Sequence[str], position: int) -> str:
        """Return a setting with its values, as it is written at a position."""
        return " ".join((name, *(self._quoted(value, position) for value in values)))

    def _inserted(self, new: Flags) -> ScriptChange:
        """Return new flags before the anchor: on lines of their own where it begins one."""
        anchor = next((flag.word for flag in self.flags if flag.key == self.key(self.anchor)), None)
        if anchor is None or anchor.start < 0:  # one change may have ended the command before it
            raise by_hand(self.file, self.anchor)
        start = anchor.start
        pieces = [self._piece(flag, values, start) for flag, values in new.items()]
        line_start = self.text.rfind("\n", 0, start) + 1
        indent = self.text[line_start:start]
        if indent.strip():
            return ScriptChange(start, start, "".join(f"{piece} " for piece in pieces))
        line = self.text[start:].partition("\n")[0].rstrip("\r")
        previous = self.text[:line_start].rstrip("\r\n")
        newline = "\r\n" if self.text[:line_start].endswith("\r\n") else "\n"
        joint = " \\" if line.endswith("\\") or previous.endswith("\\") else ""
        return ScriptChange(start, start, "".join(f"{piece}{joint}{newline}{indent}" for piece in pieces))


def _check_others(before: FlagScript, after: FlagScript, decided: Sequence[str], wanted: Flags) -> None:
    """Raise InputError where a setting that the plan does not decide has changed."""
    keys = set(map(before.key, decided))

    def others(script: FlagScript) -> list[tuple[str, list[str]]]:
        return [(flag.word.text, flag.texts) for flag in script.flags if flag.key not in keys]

    if others(before) != others(after):
        raise by_hand(before.file, ", ".join(wanted))


def _check_syntax(text: str, edited: str, file: str, wanted: Flags) -> None:
    """Raise InputError where bash refuses the edited script, but not the old one; without bash nothing is checked."""
    if text != edited and _bash_refuses(edited) and not _bash_refuses(text):
        raise by_hand(file, ", ".join(wanted))


def _bash_refuses(script: str) -> bool:
    """Return whether bash refuses the syntax of a script, which it reads without running anything."""
    bash = shutil.which("bash")
    if bash is None:
        return False
    return subprocess.run([bash, "-n"], input=script, capture_output=True, text=True, check=False).returncode != 0


def by_hand(file: str, flags: str) -> InputError:
    """Return the refusal to edit a script, for the caller to raise."""
    return InputError(
        rule=_("is set in a way that cannot be edited"),
        place=f"{file}: {flags}",
        remedy=_("write the flags of the plan by hand"),
    )


def _key(flag: str) -> str:
    key = flag.removeprefix("--").replace("-", "_")
    return ALIASES.get(key, key)


def plain_layout(value: str) -> str:
    """Return a layout without groups and numbers, whose marks a shell might read; any other value as it is."""
    try:
        return write_out(value, place="")
    except InputError:
        return value


def _has_words(raw: str) -> bool:
    """Return whether the text of a variable is a list of words, or a flag."""
    return any(map(str.isspace, raw)) or raw.lstrip("'\"").startswith("-")
