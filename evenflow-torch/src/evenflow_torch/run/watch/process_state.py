"""Other processes of this machine: which are gone, which compute, and how they are ended. Imports no torch."""

import os
import signal
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")


def machine_name() -> str:
    """Return a name that processes share only where they know each other by their process ids; "" if unknown."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {(_PROC / 'self/ns/pid').readlink()}"
    except OSError:
        return ""


def is_gone(pid: int) -> bool:
    """Return whether a process has ended, also where its parent has not asked for its status yet."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return _fields(pid)[:1] in (["Z"], ["X"])


def processor_ticks(pid: int) -> int:
    """Return the processor time that a process has used, in ticks of the system; 0 if unknown."""
    fields = _fields(pid)
    return int(fields[11]) + int(fields[12]) if len(fields) > 12 else 0


def end_stopped(pid: int) -> None:
    """End a process that may have been stopped; one that was hears nothing until it goes on."""
    with suppress(OSError):
        os.kill(pid, signal.SIGTERM)
        os.kill(pid, signal.SIGCONT)


def _fields(pid: int) -> list[str]:
    """Return the fields of a process behind its name, its state first; none where the system does not tell them."""
    try:
        return (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return []
