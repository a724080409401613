"""The folder of a run in the temporary directory: nothing of it stays, however the run ends. Imports no torch.

ends by itself, or by an error     the command removes it
the command is killed              its ranks notice, and each removes what it finds before it ends
all of them are killed             the next run removes it: nobody holds the lock on it any more
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

COMPILER_FOLDER = "TORCHINDUCTOR_CACHE_DIR"
"""Environment variable with the folder that torch makes for its compiler, as soon as it is imported."""

_COMPILER = "torchinductor"
_PREFIX = "evenflow-run-"
_NEW = "evenflow-new-"
"""Prefix until the lock is held, so that no other run takes the folder for one that was left behind."""


@contextmanager
def run_folder() -> Iterator[Path]:
    """Make a folder of this process's own, and remove it at the end; what dead runs have left goes first."""
    _remove_abandoned(Path(tempfile.gettempdir()))
    made = Path(tempfile.mkdtemp(prefix=_NEW))
    lock = os.open(made, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = made.rename(made.with_name(made.name.replace(_NEW, _PREFIX, 1)))
        try:
            yield folder
        finally:
            remove(folder)
    finally:
        os.close(lock)


def compiler_variables(folder: Path) -> dict[str, str]:
    """Return the environment of a process whose torch writes into `folder`, unless a user has said where else."""
    own = os.environ.get(COMPILER_FOLDER)
    if own is not None and not Path(own).parent.name.startswith(_PREFIX):
        return {}
    return {COMPILER_FOLDER: str(folder / _COMPILER)}


def remove(folder: Path) -> None:
    """Remove a folder, of which others may be removing parts at the same time."""
    shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(parent: Path) -> None:
    """Remove the folders of runs of which no process is left, as far as this user may."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # of another user, in use, or gone already
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(folder)
            finally:
                os.close(lock)
