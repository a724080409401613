"""Result files: checked before the long work starts, written whole or not at all, named at the end."""

import hashlib
import json
import os
import re
import secrets
import stat
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext, redirect_stdout, suppress
from pathlib import Path
from typing import TextIO

import click

from evenflow.cli.shared.files.picture_files import (
    check_page_file,
    check_picture_file,
    check_text_file,
    picture_content,
)
from evenflow.cli.shared.files.written_mark import mark_of, marked
from evenflow.errors import FileError, InputError
from evenflow.export.results.json_text import format_object
from evenflow.interruption import writing
from evenflow.language import ENGLISH, _, speaking
from evenflow.profiles.report_file import numbered

JSON = "--json"
SVG = "--svg"
HTML, PAGE = "--html", "-o"
"""Options that name a page; the second is that of ``evenflow report``."""
TRACE = "--trace"
_TEXT_FORMATS = {
    JSON: ".json", TRACE: ".json", "--layer-file": ".json", "--timeline": ".json", "--order": ".csv", "--runs": ".csv"
}  # fmt: skip
_ACTIONS = re.compile(rb"(?:\d+[FBIW]\d+(?:,\d+[FBIW]\d+)*\n)+")
"""An order of work in the very form that evenflow writes."""
_MANY_ACTIONS = 200_000
_TRACED_BYTES = 360
"""About how many bytes of a trace an action has."""
_MOST_TRACED, _FEWEST_TRACED = 500_000, 20_000
"""Actions of all steps of a trace: more take gigabytes of memory here and in what opens it; fewer take no time."""
_ACTION_SECONDS = {SVG: 1e-6, HTML: 5e-6, TRACE: 1e-5, "--order": 1e-6}
_PNG_SECONDS = 1.0
_STANDARD_OUTPUT = Path("-")
_MOST_BYTES = 2**28
"""Larger files are not evenflow's."""


class Outputs:
    """The files that a command was asked to write, by the option (or words) that names each.

    Creating them refuses paths that cannot be written, that are the same, or that are an input file, and leaves nothing
    behind; missing folders are made when a file is written.

    A file that is there already is replaced only if it has the mark that evenflow left and was not changed since (see
    `written_mark`); one that holds measurements only by the verb that measured them. `overwrite` lifts this.
    """

    def __init__(
        self,
        paths: Mapping[str, Path | None],
        *,
        pictures: Mapping[str, Path | None] | None = None,
        inputs: Mapping[str, Path | None] | None = None,
        overwrite: bool = False,
        edited: Collection[str] = (),
        without_mark: Collection[str] = (),
        measured_by: str = "",
        like: Mapping[str, Path] | None = None,
        formats: Mapping[str, str] | None = None,
    ) -> None:
        """Check `paths` and `pictures`; ``--svg`` is a picture in either.

        What is `edited` may be there, and the caller keeps what is in it; it must not change before it is written. A
        new file has the permissions of the file that `like` names for its option: it holds the same secrets. What is
        `without_mark` has no place for one, and is known by its form: an order of work as CSV, where torch takes every
        line for a rank, and a JSON object whose keys are names. With `measured_by`, a verb, the files hold
        measurements. `formats` are the suffixes of formats of options that do not have the same one in every verb.
        """
        pictures = {SVG: paths.get(SVG), **(pictures or {})}
        self._paths = {option: path for option, path in {**paths, **pictures}.items() if path is not None}
        self._standard_output = _kept_for_json() if self._paths.get(JSON) == _STANDARD_OUTPUT else None
        """Where the result goes instead of a file; everything else that the command says is on standard error then."""
        if self._standard_output is not None:
            del self._paths[JSON]
        self._pictures = frozenset(pictures)
        self._written: list[Path] = []
        self._replaces_all = overwrite
        self._edited = edited
        self._without_mark = without_mark
        self._measured_by = measured_by
        self._like = like or {}
        input_paths = {name: numbered(str(path))[0] for name, path in (inputs or {}).items() if path is not None}
        taken = {os.path.realpath(path): name for name, path in input_paths.items()}
        for option, path in self._paths.items():
            if path == _STANDARD_OUTPUT:
                raise InputError(
                    value=str(path),
                    rule=_("must name a file: only {json} may go to standard output", json=JSON),
                    place=option,
                    remedy=_("give the file a name"),
                )
            real = os.path.realpath(path)
            if real in taken and not _is_special(path):
                raise InputError(
                    value=str(path),
                    rule=_("must not be the same file as {taken}", taken=taken[real]),
                    place=option,
                    remedy=_("name another file"),
                )
            taken[real] = option
            _check_writable(path, option)
            if option in self._pictures:
                check_picture_file(path, place=option)
            if option in (HTML, PAGE):
                check_page_file(path, place=option)
            self._check_replaceable(option)
        for option, suffix in {**_TEXT_FORMATS, **(formats or {})}.items():
            if option in self._paths:
                check_text_file(self._paths[option], suffix, place=option)
        self._before = {option: _digest(self._paths[option]) for option in edited if option in self._paths}
        for option in self._before:
            _check_one_name(self._paths[option], option)

    def write(self, option: str, make_text: Callable[[], str], *, mark_first_line: bool = False) -> None:
        """Make and write the text of `option` where it was asked for; of a picture the SVG, which may become a PNG.

        The mark is a comment in the first line with `mark_first_line`, else where the format has a place for one.
        """
        if not self.has(option):
            return
        # In a picture the fonts decide, and programs read JSON.
        is_for_all = option in self._pictures or option in (JSON, TRACE)
        with speaking(ENGLISH) if is_for_all else nullcontext():
            made: str | bytes = make_text()
        if option in self._pictures:
            made = picture_content(self._paths[option], str(made))
        # A name of a file that is no text, which became the name of a model, must not stop the file.
        content = made.encode(errors="replace") if isinstance(made, str) else made
        del made  # a trace can be large
        if option not in self._edited and option not in self._without_mark:
            content = marked(content, measured_by=self._measured_by, first_line=mark_first_line)
        if option == JSON and self._standard_output is not None:
            self._standard_output.write(content.decode())
            return
        path = self._paths[option]
        self._check_replaceable(option)  # it may have come, or have been changed, during the work
        write_whole(
            path, content, option=option, like=self._like.get(option), check=lambda: self._check_unchanged(option)
        )
        self._written.append(path)

    def has(self, option: str) -> bool:
        """Return whether the file of `option` was asked for."""
        return option in self._paths or (option == JSON and self._standard_output is not None)

    def needed_seconds(self, num_actions: int) -> float:
        """Return about how long files of a step of so many actions take to be made, on a usual machine."""
        pictures = [path for option, path in self._paths.items() if option in self._pictures]
        drawn_s = _PNG_SECONDS * sum(path.suffix == ".png" for path in pictures)
        counts = {TRACE: min(num_actions, _MOST_TRACED)}
        return drawn_s + sum(
            counts.get(option, num_actions) * _ACTION_SECONDS.get(option, 0.0) for option in self._paths
        )

    def warn_of_size(self, num_actions: int) -> None:
        """Say which of the files take long for a step of so many actions, before they are made."""
        options = [option for option in (HTML, TRACE) if option in self._paths]
        if num_actions >= _MANY_ACTIONS and options:
            note = _(
                "note: {options} of {actions:,} actions takes a while; "
                "with fewer microbatches the step looks much the same",
                options=", ".join(options),
                actions=num_actions,
            )
            click.echo(note, err=True)

    def most_traced(self, num_actions: int, *, seconds: float | None = None) -> int:
        """Return how many of the actions of all steps go into the trace, in so much time, and say so if not all do."""
        most = _MOST_TRACED
        if seconds is not None:
            most = max(_FEWEST_TRACED, min(most, int(seconds / _ACTION_SECONDS[TRACE])))
        if self.has(TRACE) and most < num_actions:
            note = _(
                "note: {option} has {kept:,} of {actions:,} actions, the first and the last: "
                "all of them would take {seconds:,.0f} s and {size:,} MB",
                option=TRACE,
                kept=most,
                actions=num_actions,
                seconds=num_actions * _ACTION_SECONDS[TRACE],
                size=num_actions * _TRACED_BYTES // 10**6,
            )
            click.echo(note, err=True)
        return most

    def write_json(self, make_fields: Callable[[], Mapping[str, object]]) -> None:
        """Make and write the fields of ``--json`` where it was asked for."""
        self.write(JSON, lambda: format_object(make_fields()))

    @property
    def sentence(self) -> str:
        """The files written so far, as ``wrote plan.json, plan.svg``; empty for none."""
        return _("wrote {files}", files=", ".join(map(str, self._written))) if self._written else ""

    def say(self, *paragraphs: str, err: bool = False, is_apart: bool = False) -> None:
        """Print an answer and the files written so far; an empty paragraph is none.

        What `is_apart` follows an empty line.
        """
        text = "\n\n".join(filter(None, (*paragraphs, self.sentence)))
        if text:
            click.echo(f"\n{text}" if is_apart else text, err=err)

    def _check_unchanged(self, option: str) -> None:
        """Refuse to replace a file that somebody has edited since it was read."""
        if option in self._before and _digest(self._paths[option]) != self._before[option]:
            raise InputError(
                value=str(self._paths[option]),
                rule=_("must not change between being read and being written"),
                place=option,
                remedy=_("run the command again"),
            )

    def _check_replaceable(self, option: str) -> None:
        """Refuse to replace what evenflow did not write, or what somebody has changed or measured since."""
        path = self._paths[option]
        if self._replaces_all or option in self._edited or not path.is_file():
            return
        content = _content_of(path, option)
        if not content or (option in self._without_mark and _has_our_form(content)):
            return
        refused = _reason_to_keep(content, self._measured_by)
        if refused:
            raise InputError(
                value=str(path), rule=refused, place=option, remedy=_("choose another name, or add --overwrite")
            )


def _kept_for_json() -> TextIO:
    """Return standard output, for the result alone: all else goes to standard error until the command ends."""
    kept, redirected = sys.stdout, redirect_stdout(sys.stderr)
    redirected.__enter__()
    click.get_current_context().call_on_close(lambda: redirected.__exit__(None, None, None))
    return kept


def write_whole(
    path: Path,
    content: bytes,
    *,
    option: str,
    like: Path | None = None,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Write `content` to `path` at once: a temporary file beside it, then a rename. Folders are made.

    The file keeps its permissions, owner and extended attributes; a new one has the permissions of the file `like`.
    `check` is called just before the rename and may raise.

    Raises:
        FileError: the file cannot be written.
        BrokenPipeError: it is a pipe whose reader has gone.
    """
    try:
        if _is_special(path):
            path.write_bytes(content)
            return
        target = Path(os.path.realpath(path))
        temporary = target.with_name(f".evenflow-{secrets.token_hex(6)}.tmp")
        target.parent.mkdir(parents=True, exist_ok=True)
        with writing():
            try:
                _write_new(temporary, content, target if target.exists() else like)
                check()
                temporary.replace(target)
            finally:
                with suppress(OSError):
                    temporary.unlink()
    except BrokenPipeError:  # the reader of a pipe has gone, which is no fault of the path
        raise
    except OSError as error:
        raise _unwritable(path, option, error) from None


def _content_of(path: Path, option: str) -> bytes:
    try:
        return path.read_bytes() if path.stat().st_size <= _MOST_BYTES else b"too large"
    except OSError as error:
        raise FileError.from_os(path, error, remedy=_("choose another path for {option}", option=option)) from None


def _has_our_form(content: bytes) -> bool:
    """Return whether a file without a mark looks exactly as evenflow writes it."""
    if not content.startswith(b"{"):
        return _ACTIONS.fullmatch(content) is not None
    try:
        return format_object(json.loads(content)).encode() == content
    except (ValueError, AttributeError, RecursionError):
        return False


def _reason_to_keep(content: bytes, measured_by: str) -> str:
    """Return the rule that forbids to replace a file of this content; empty where nothing does."""
    mark = mark_of(content)
    if mark is None:
        return _("must not be a file that evenflow did not write")
    if mark.is_changed:
        return _("must not be a file that was changed after evenflow wrote it")
    if mark.measured_by and mark.measured_by != measured_by:
        return _("must not be a file with measurements of evenflow {verb}", verb=mark.measured_by)
    return ""


def _write_new(path: Path, content: bytes, like: Path | None) -> None:
    """Write a new file to the disk, which nobody else can read before it has the permissions of `like`."""
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if like is None else 0o600)
    with os.fdopen(number, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(number)
        if like is not None:
            _take_permissions(number, like)


def _take_permissions(number: int, like: Path) -> None:
    """Give an open file the owner, extended attributes and permissions of the file `like`, as far as the user may."""
    status = like.stat()
    with suppress(PermissionError):
        os.fchown(number, status.st_uid, status.st_gid)
    if hasattr(os, "listxattr"):  # Linux only
        with suppress(OSError):
            for name in os.listxattr(like):
                os.setxattr(number, name, os.getxattr(like, name))
    os.fchmod(number, stat.S_IMODE(status.st_mode))


def _digest(path: Path) -> bytes | None:
    """Return a hash of what is in a file; None where there is none."""
    return hashlib.sha256(path.read_bytes()).digest() if path.is_file() else None


def _check_writable(path: Path, option: str) -> None:
    try:
        if path.is_dir():
            raise InputError(value=str(path), rule=_("must be a file, not a folder"), place=option)
        if _is_special(path):
            return
        folder = Path(os.path.realpath(path)).parent
        while not folder.exists():
            folder = folder.parent
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:
        raise _unwritable(path, option, error) from None


def _check_one_name(path: Path, option: str) -> None:
    """Refuse to edit a file that has other names (hard links), which would go on naming what it was before."""
    if path.is_file() and path.stat().st_nlink > 1:
        raise InputError(
            value=_("{path} with {count} names", path=path, count=path.stat().st_nlink),
            rule=_("must have one name to be edited in place; hard links would keep the old text"),
            place=option,
            remedy=_("write another file"),
        )


def _is_special(path: Path) -> bool:
    """Return whether the path is a terminal, a pipe or another device, which a rename would destroy."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _unwritable(path: Path, option: str, error: Exception) -> FileError:
    return FileError.from_os(path, error, action="write", remedy=_("choose another path for {option}", option=option))
