"""A folder of logs as measured runs: which of them the ranks of one run wrote."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from evenflow.errors import FileError, InputError
from evenflow.language import _
from evenflow.profiles.file_order import by_number
from evenflow.profiles.measured.logs.log_file import LogFile, read_log
from evenflow.profiles.measured.logs.log_format import LogFormats
from evenflow.profiles.measured.logs.logged_run import measured_run
from evenflow.profiles.measured.run import MeasuredRun

SUFFIXES = (".log", ".out", ".err", ".txt", "")
"""Ends of the names of logs."""
MOST_FILES = 20_000
_RANK_FOLDER = re.compile(r"(?:attempt|rank|worker|node|stage)?[_-]?[0-9]{1,5}(?:_rank_?[0-9]{1,6})?")
_RANK_LOG = re.compile(r"(?:rank|worker|node|local)[_-]?[0-9]{1,6}(?![0-9])")


def runs_of_folder(folder: Path, *, formats: LogFormats) -> tuple[MeasuredRun, ...]:
    """Return the runs whose logs are in a folder, at any depth, in order of their names.

    Logs in one folder, and in folders of ranks in it (``rank_3``, ``attempt_0/3``), are of one run, but for those that
    contradict one another in the configuration, and for complete ones whose names do not say that they are of a rank.
    Files without anything of a run are passed over.

    Raises:
        InputError: a folder that cannot be read, without any run, or with a log that could be of several.
    """
    by_run: dict[Path, list[LogFile]] = {}
    for path in _logs(folder):
        log = read_log(path, formats=formats)
        if not log.run.is_empty:
            by_run.setdefault(_folder_of_run(path, folder), []).append(log)
    runs = [run for place, logs in by_run.items() for run in _runs(logs, place)]
    if not runs:
        raise InputError(
            rule=_("must have logs of a training: files that end in {names}", names=", ".join(filter(None, SUFFIXES))),
            place=str(folder),
            remedy=_("give the folder of the output of its ranks"),
        )
    return tuple(runs)


def _logs(folder: Path) -> list[Path]:
    logs: list[Path] = []
    try:
        for path in folder.rglob("*"):
            if path.suffix in SUFFIXES and path.is_file() and not path.name.startswith("."):
                logs.append(path)
                if len(logs) > MOST_FILES:
                    rule = _("must have at most {most:,} logs", most=MOST_FILES)
                    remedy = _("give those of the first and the last rank")
                    raise InputError(rule=rule, place=str(folder), remedy=remedy)
    except OSError as error:
        raise FileError.from_os(folder, error) from None
    return sorted(logs, key=by_number)


def _folder_of_run(path: Path, top: Path) -> Path:
    """The folder of a log, above those that are named after ranks."""
    folder = path.parent
    while folder != top and _RANK_FOLDER.fullmatch(folder.name):
        folder = folder.parent
    return folder


def _runs(logs: Sequence[LogFile], place: Path) -> Iterable[MeasuredRun]:
    groups: list[list[LogFile]] = []
    for log in logs:
        if log.run.stated.texts:
            group = next((group for group in groups if all(_agree(log, other) for other in group)), None)
            if group is None or (_is_whole(log, place) and any(_is_whole(other, place) for other in group)):
                groups.append([log])
            else:
                group.append(log)
    rest = [log for log in logs if not log.run.stated.texts]
    if rest and len(groups) > 1:
        raise InputError(
            value=rest[0].path.name,
            rule=_("must have the logs of each run in a folder of their own: this one could be of several"),
            place=str(place),
        )
    if len(groups) <= 1:
        yield measured_run(logs, place=place if len(logs) > 1 else logs[0].path)
        return
    for group in groups:
        yield measured_run(group, place=group[0].path)


def _agree(log: LogFile, other: LogFile) -> bool:
    """Whether nothing that both logs state differs."""
    texts, others = log.run.stated.texts, other.run.stated.texts
    return all(others[name] == text for name, text in texts.items() if name in others)


def _is_whole(log: LogFile, place: Path) -> bool:
    """Whether a log has a run's configuration and its steps, and no rank in its name or in that of a folder."""
    if log.run.steady is None:
        return False
    return log.path.parent == place and _RANK_LOG.search(log.path.name) is None
