"""The traces in a folder: beside each other, or in a folder of each rank, as Ascend's profilers leave them.

profile/rank_0/ASCEND_PROFILER_OUTPUT/trace_view.json
profile/HOST_PID_TIME_ascend_pt/ASCEND_PROFILER_OUTPUT/trace_view.json    beside the output profiler_info_3.json
profile/rank_3/HOST_PID_TIME_ascend_ms/ASCEND_PROFILER_OUTPUT/trace_view.json
profile/rank_3/*.json                                                     of any profiler
"""

import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from evenflow.errors import FileError, InputError
from evenflow.fields import read_head
from evenflow.language import _
from evenflow.profiles.file_order import by_number

SUFFIXES = (".json", ".json.gz", ".sqlite")
OUTPUT = "ASCEND_PROFILER_OUTPUT"
"""The folder in which an Ascend profiler leaves the timeline of one rank."""
_ASCEND_FILES = ("trace_view", "msprof")
"""Beginnings of the names of timelines in an Ascend folder; other JSON files lie beside them."""
_PROFILES = ("_ascend_pt", "_ascend_ms")
_INFO = re.compile(r"profiler_info_([0-9]{1,9})\.json")
_FOLDER = re.compile(r"(?:^|.*[^a-z])(?:rank|device)[-_]?([0-9]{1,9})(?![0-9]).*|([0-9]{1,9})", re.IGNORECASE)
_RECORDED = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}]*?"rank"\s*:\s*([0-9]{1,9})\b')
_DEEPEST = 2
"""Most folders between the one that is read and an output."""
_MOST_FOLDERS = 20_000
_HEAD_BYTES = 2**16


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFile:
    """A trace, and whose it is."""

    path: Path
    rank: int | None
    """What its folder or the file itself says; None where neither does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFolder:
    """The traces in a folder, in order of their ranks, or of the numbers in their names where not all have one."""

    files: tuple[TraceFile, ...]
    is_tree: bool = False
    """Whether every rank has a folder of its own."""
    empty_ranks: frozenset[int] = frozenset()
    """Ranks whose folder has no trace."""

    @property
    def missing(self) -> str:
        """Ranks of which there is no trace though there is one of a later rank, as text: ``1, 3-6``."""
        known = {file.rank for file in self.files if file.rank is not None}
        last = max(known | self.empty_ranks, default=-1)
        spans: list[list[int]] = []
        for rank in sorted(self.empty_ranks | set(range(last if len(known) == len(self.files) else 0)) - known):
            if spans and spans[-1][-1] == rank - 1:
                spans[-1][1:] = [rank]
            else:
                spans.append([rank])
        return ", ".join("-".join(map(str, span)) for span in spans)

    def missing_note(self, folder: str) -> str:
        """Return what to say of the ranks that are missing."""
        return _("{folder}: no trace of these ranks: {ranks}", folder=folder, ranks=self.missing)


def trace_files(folder: Path) -> TraceFolder:
    """Return the traces in a folder or in the folders of its ranks; of a file, the file itself.

    Raises:
        InputError: no folder, no trace in it, or traces both in it and in folders of ranks.
    """
    if folder.is_file():
        return TraceFolder(files=(_traced(folder),))
    try:
        entries = sorted(folder.iterdir(), key=by_number)
    except OSError as error:
        raise FileError.from_os(folder, error) from None
    traces, tree = _traces_of(entries), _tree(folder)
    if tree is None or (traces and not _is_of_ascend(tree)):
        if not traces:
            raise _no_traces(folder, entries)
        return TraceFolder(files=_in_order(map(_traced, traces)))
    beside = [path for path in traces if path.name.startswith(_ASCEND_FILES) or not path.name.endswith(".json")]
    if beside:
        raise InputError(
            value=[beside[0].name, str(tree.files[0].path.relative_to(folder))] if tree.files else beside[0].name,
            rule=_("must have its traces beside each other or in a folder of each rank, not both"),
            place=str(folder),
            remedy=_("give the folder of the ones that count"),
        )
    if not tree.files:
        raise InputError(
            rule=_("must have a trace_view.json in the {output} of each rank, and none has one", output=OUTPUT),
            place=str(folder),
            remedy=_(
                "let the profiler analyse what it recorded (analyse of torch_npu.profiler.profiler or of "
                "mindspore.profiler.profiler), with text among the types that it exports"
            ),
        )
    return tree


def shown_name(file: str) -> str:
    """Return the name of a trace; where all have the same, with the folders that tell them apart.

    >>> shown_name("x/trace_view0.json"), shown_name(f"x/rank_0/{OUTPUT}/trace_view.json")
    ('trace_view0.json', 'rank_0/ASCEND_PROFILER_OUTPUT/trace_view.json')
    """
    path = Path(file)
    return str(Path(*path.parts[-3:])) if path.parent.name == OUTPUT else path.name


def _traces_of(entries: Sequence[Path]) -> list[Path]:
    """Return the traces among the files of one folder."""
    traces = [path for path in entries if path.name.endswith(SUFFIXES) and path.is_file()]
    return [path for path in traces if path.name.startswith(_ASCEND_FILES)] or traces


def _tree(folder: Path) -> TraceFolder | None:
    """Return the traces in the folders of ranks; None where there are none."""
    outputs, ranks = _folders(folder)
    files: list[TraceFile] = []
    empty: set[int | None] = set()
    for profile in outputs or ranks:
        rank = _rank_of_folder(profile, folder)
        traces: list[Path] = []
        with suppress(OSError):
            traces = _traces_of(sorted((profile / OUTPUT if outputs else profile).iterdir(), key=by_number))
        if outputs:
            traces = [path for path in traces if path.name.startswith(_ASCEND_FILES)]
        files += [TraceFile(path=path, rank=rank) for path in traces]
        if not traces:
            empty.add(rank)
    if outputs:
        empty |= {_rank_of_folder(path, folder) for path in ranks}
    if not files and not outputs:
        return None
    empty_ranks = frozenset(rank for rank in empty - {file.rank for file in files} if rank is not None)
    return TraceFolder(files=_in_order(files), is_tree=outputs != [folder], empty_ranks=empty_ranks)


def _is_of_ascend(tree: TraceFolder) -> bool:
    return not tree.files or tree.files[0].path.parent.name == OUTPUT


def _folders(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the folders with a profile of Ascend's, and the folders of ranks directly inside."""
    outputs, level, seen = [], [folder], 0
    ranks: list[Path] = []
    for depth in range(_DEEPEST + 1):
        inside = []
        for path in level:
            below = list(_subfolders(path))
            seen += len(below)
            if seen > _MOST_FOLDERS:
                raise InputError(
                    value=str(folder),
                    rule=_("must have at most {limit:,} folders", limit=_MOST_FOLDERS),
                    place=_("the folder of the traces"),
                    remedy=_("give the folder in which the profiler wrote"),
                )
            if path.name.endswith(_PROFILES) or any(other.name == OUTPUT for other in below):
                outputs.append(path)
            else:
                inside += below
        if depth == 0:
            ranks = [path for path in inside if _FOLDER.fullmatch(path.name)]
        level = inside
    return outputs, ranks


def _subfolders(folder: Path) -> Iterator[Path]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield Path(entry.path)


def _rank_of_folder(profile: Path, top: Path) -> int | None:
    """Return the rank of a profile: by the file that the profiler left in it, or by the names of the folders."""
    with suppress(OSError):
        named = [match for path in profile.iterdir() if (match := _INFO.fullmatch(path.name))]
        if len(named) == 1:
            return int(named[0][1])
    while profile != top:
        match = _FOLDER.fullmatch(profile.name)
        if match:
            return int(match[1] or match[2])
        profile = profile.parent
    return None


def _traced(path: Path) -> TraceFile:
    """Return a trace with the rank that PyTorch recorded in it."""
    head = read_head(path, _HEAD_BYTES)
    if head.startswith(b"\x1f\x8b"):
        with suppress(zlib.error):
            head = zlib.decompressobj(wbits=31).decompress(head, _HEAD_BYTES)
    match = _RECORDED.search(head)
    return TraceFile(path=path, rank=int(match[1]) if match else None)


def _in_order(files: Iterable[TraceFile]) -> tuple[TraceFile, ...]:
    every = sorted(files, key=lambda file: by_number(file.path))
    if all(file.rank is not None for file in every):
        every.sort(key=lambda file: file.rank or 0)
    return tuple(every)


def _no_traces(folder: Path, entries: Sequence[Path]) -> InputError:
    reports = [path.name for path in entries if path.suffix == ".nsys-rep"]
    return InputError(
        value=[path.name for path in entries[:5]],
        rule=_("must have traces: files that end in {names}", names=", ".join(SUFFIXES)),
        place=str(folder),
        remedy=_("run nsys export --type sqlite {report}", report=reports[0])
        if reports
        else _("put the trace of each stage there"),
    )
