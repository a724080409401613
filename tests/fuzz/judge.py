"""Runs one command in this process and says what is wrong with how it ended, if anything."""

import io
import os
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

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


class _Kept(io.BytesIO):
    """What was written stays readable when the stream around it is closed."""

    def close(self) -> None:
        """Stay open."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one input ended."""

    status: int | None
    fault: str
    """Kind of the fault: traceback, status, message, silence, time or memory; empty for none."""
    detail: str
    seconds: float
    grown_bytes: int


def run(command: Command, folder: Path) -> Verdict:
    """Run `command` in `folder`."""
    os.chdir(folder)
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
