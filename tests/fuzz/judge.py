"""Runs one command in this process and says what is wrong with how it ended, if anything."""

import io
import json
import os
import re
import stat
import sys
import time
import tomllib
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.fuzz.cases import SAPP, Command

STATUSES = frozenset({0, 1, 2, 3, 4, 5, 130, 141})
"""Documented exit statuses."""
MOST_MESSAGE = 4000
"""Characters on stderr that still are a message."""
MOST_SECONDS = 10.0
"""Processor time of one input: the clock depends on what else runs on the machine."""
MOST_BYTES, MOST_BYTES_OF_WORK = 500 * 2**20, 2 * 2**30
"""Memory beyond that of the process before the input: of one that is refused, and of one that is answered, since a
legal step may have 4,000,000 actions."""


ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that a terminal acts on."""


class _Kept(io.BytesIO):
    """What was written stays readable when the stream around it is closed."""

    def close(self) -> None:
        """Stay open."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one input ended."""

    status: int | None
    fault: str
    """Kind of the fault: traceback, status, message, silence, terminal, input, output, left-over, time or memory; empty for
    none."""
    detail: str
    seconds: float
    grown_bytes: int


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a folder: what they hold and who may read them."""

    folder: Path
    held: dict[Path, tuple[bytes, int]]

    @classmethod
    def of(cls, folder: Path) -> "Files":
        """Return the files that are there now."""
        paths = (path for path in folder.rglob("*") if path.is_file())
        return cls(folder, {path: (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) for path in paths})

    def wrong_after(self, command: Command, status: int | None) -> tuple[str, str] | None:
        """Return what a command did to its files that it must not do, as a fault and its detail."""
        now = Files.of(self.folder).held
        may_replace = {"--overwrite", "--in-place"} & set(command.arguments)
        named = (
            {(self.folder / word).resolve() for word in command.arguments if _is_name(word)} if may_replace else set()
        )
        for path, (content, mode) in self.held.items():
            if path not in now or (now[path][0] != content and path.resolve() not in named):
                return "input", f"{path} was changed"
            if now[path][1] != mode:
                return "input", f"{path}: mode {now[path][1]:o}, was {mode:o}"
        for path in sorted(set(now) - set(self.held)):
            if path.name.startswith(".evenflow-") or (status == 2 and command.arguments[0] not in (SAPP, "calibrate")):
                return "left-over", str(path)
            if problem := unreadable(path, now[path][0]):
                return "output", f"{path}: {problem}"
        return None


def acting(said: str) -> str:
    """Return the part of an output that would act on a terminal, or is a line that a user made up; empty for none."""
    forged = next((line for line in said.splitlines() if line.startswith("optimal: FORGED")), "")
    place = ACTING.search(said)
    return repr(said[max(0, place.start() - 100) : place.end() + 20]) if place else forged


def unreadable(path: Path, content: bytes) -> str:
    """Return why a file that was written is not of its format; empty where it is."""
    try:
        text = content.decode()
        if path.suffix == ".json":
            json.loads(text, parse_constant=_refuse)
        elif path.suffix == ".svg":
            ElementTree.fromstring(text)
        elif path.suffix == ".toml":
            tomllib.loads(text)
        elif path.suffix == ".html" and "</html>" not in text[-500:]:
            return "no end"
    except (ValueError, ElementTree.ParseError) as error:
        return str(error)
    return ""


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON")


def _is_name(word: str) -> bool:
    return len(word) < 200 and "\x00" not in word


def run(command: Command, folder: Path) -> Verdict:
    """Run `command` in `folder`."""
    os.chdir(folder)
    files = Files.of(folder)
    before = _reset_peak()
    started = time.process_time()
    status, output, errors, crash = _call(command)
    seconds = time.process_time() - started
    grown = max(0, _peak() - before)
    fault, detail = "", ""
    if crash:
        fault, detail = "traceback", crash
    elif status not in STATUSES:
        fault, detail = "status", f"{status}: {errors[-500:]}"
    elif "Traceback" in errors:
        fault, detail = "traceback", errors[-3000:]
    elif len(errors) > MOST_MESSAGE and status == 2:
        fault, detail = "message", f"{len(errors)} characters: {errors[:300]}"
    elif status == 2 and not errors.strip():
        fault, detail = "silence", output[-300:]
    elif said := acting(output) or acting(errors):
        fault, detail = "terminal", said
    elif wrong := files.wrong_after(command, status):
        fault, detail = wrong
    elif seconds > MOST_SECONDS:
        fault, detail = "time", f"{seconds:.1f} s"
    elif grown > (MOST_BYTES if status == 2 else MOST_BYTES_OF_WORK):
        fault, detail = "memory", f"{grown / 2**20:.0f} MB"
    return Verdict(status, fault, detail, seconds, grown)


def _call(command: Command) -> tuple[int | None, str, str, str]:
    """Return exit status, standard output, standard error, and the traceback of an exception that came through."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    output, errors = _Kept(), _Kept()
    sys.stdin = io.TextIOWrapper(io.BytesIO(command.stdin), encoding="utf-8")
    sys.stdout = io.TextIOWrapper(output, encoding="utf-8", errors="strict")
    sys.stderr = io.TextIOWrapper(errors, encoding="utf-8", errors="backslashreplace")
    status, crash = None, ""
    try:
        _main(command)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:  # noqa: BLE001 - whatever it is, it is a finding
        crash = traceback.format_exc()
    with suppress(ValueError, UnicodeError):
        sys.stdout.flush()
    with suppress(ValueError):
        sys.stderr.flush()
    sys.stdin, sys.stdout, sys.stderr = streams
    return status, output.getvalue().decode("utf-8", "replace"), errors.getvalue().decode("utf-8", "replace"), crash


def _main(command: Command) -> None:
    from evenflow.cli.main import main
    from evenflow.cli.sapp.command import main as sapp

    first, *rest = command.arguments
    if first == SAPP:
        sapp(rest)
    else:
        main(list(command.arguments))


def _reset_peak() -> int:
    """Forget the highest memory so far; return the memory in use."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _status_bytes("VmRSS:")


def _peak() -> int:
    return _status_bytes("VmHWM:")


def _status_bytes(name: str) -> int:
    """Return one of the memory figures of this process; zero where the system does not tell."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(name):
                return 1024 * int(line.split()[1])
    return 0
