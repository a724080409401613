"""A folder of traces, each of one pipeline stage, as the times of head, body and tail."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evenflow.errors import InputError
from evenflow.profiles.traces.chrome import ChromeCollector
from evenflow.profiles.traces.events import read_events
from evenflow.profiles.traces.layer_times import BlockTime, block_time
from evenflow.profiles.traces.names import BODY, HEAD, TAIL, LayerNames, NameMatcher, names_there
from evenflow.profiles.traces.nsight import MAGIC, read_report
from evenflow.profiles.traces.samples import FileSamples, samples_of
from evenflow.profiles.traces.timeline import Timeline

SUFFIXES = (".json", ".json.gz", ".sqlite")
_ASCEND_FILES = ("trace_view", "msprof")
"""How the timelines in an Ascend folder are named; other JSON files lie beside them."""

TraceProgress = Callable[[int, int], None]
"""Bytes read and bytes in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """What was counted of one file."""

    file: str
    source: str
    num_steps: int
    counted_steps: int
    steps_from: str
    num_layers: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceTimes:
    """What a folder of traces says."""

    head: BlockTime | None
    bodies: tuple[BlockTime, ...]
    """One for each body name, in the order of the names."""
    tail: BlockTime | None
    files: tuple[FileReport, ...]
    notes: tuple[str, ...]


def read_traces(
    folder: Path | str,
    *,
    num_microbatches: int,
    num_layers: int | None = None,
    names: LayerNames | None = None,
    progress: TraceProgress | None = None,
) -> TraceTimes:
    """The times in the traces of a folder (or in one file): Ascend, PyTorch, Nsight Systems.

    `num_microbatches` is that of the profiled run; no stage may have more than `num_layers` layers. A head or tail of
    the default names may be missing; every other name must be in some trace.

    Raises:
        InputError: no trace, a trace that is damaged or does not show the layers or the steps.
    """
    names = names or LayerNames()
    if num_microbatches < 1:
        raise InputError(value=num_microbatches, rule="a step has at least one microbatch", place="microbatches")
    paths = trace_files(Path(folder))
    timelines = _read_files(paths, NameMatcher(names), progress)
    scopes: Counter[str] = Counter()
    for timeline in timelines:
        scopes.update(timeline.scopes)
    files = [samples_of(timeline, num_microbatches=num_microbatches) for timeline in timelines if timeline.occurrences]
    notes = [note for file in files for note in file.notes]
    notes += [f"{timeline.file}: none of the layers" for timeline in timelines if not timeline.occurrences]
    notes += _check_names(files, names, scopes, place=str(folder))
    _check_layers(files, num_layers)
    return TraceTimes(
        head=block_time(files, HEAD, names.head),
        bodies=tuple(_layer_time(files, name, place=str(folder)) for name in names.body),
        tail=block_time(files, TAIL, names.tail),
        files=tuple(
            FileReport(
                file=file.file,
                source=file.source,
                num_steps=file.num_steps,
                counted_steps=file.counted_steps,
                steps_from=file.steps_from,
                num_layers=file.num_layers,
            )
            for file in files
        ),
        notes=tuple(dict.fromkeys(notes)),
    )


def trace_files(folder: Path) -> list[Path]:
    """The traces in a folder, in order of their numbers; a file is itself.

    Raises:
        InputError: no folder, or no trace in it.
    """
    if folder.is_file():
        return [folder]
    try:
        entries = sorted(folder.iterdir(), key=_natural)
    except OSError as error:
        raise InputError(
            value=str(folder), rule=f"a folder that can be read ({error.strerror})", place="traces"
        ) from None
    found = [path for path in entries if path.name.endswith(SUFFIXES) and path.is_file()]
    ascend = [path for path in found if path.name.startswith(_ASCEND_FILES)]
    if not found:
        reports = [path.name for path in entries if path.suffix == ".nsys-rep"]
        raise InputError(
            value=[path.name for path in entries[:5]],
            rule=f"a folder with traces: files that end in {', '.join(SUFFIXES)}",
            place=str(folder),
            remedy=f"run nsys export --type sqlite {reports[0]}" if reports else "put the trace of each stage there",
        )
    return ascend or found


def _natural(path: Path) -> list[tuple[int, int | str]]:
    """Sorts trace_view2 before trace_view10."""
    key: list[tuple[int, int | str]] = []
    for character in path.name:
        if character.isdecimal():
            digit = int(character)
            if key and isinstance(key[-1][1], int):
                key[-1] = (0, key[-1][1] * 10 + digit)
            else:
                key.append((0, digit))
        else:
            key.append((1, character))
    return key


def _read_files(paths: Sequence[Path], matcher: NameMatcher, progress: TraceProgress | None) -> list[Timeline]:
    """The timelines of all files."""
    sizes = [path.stat().st_size for path in paths]
    timelines: list[Timeline] = []
    for index, path in enumerate(paths):
        before, total = sum(sizes[:index]), sum(sizes)

        def on_bytes(count: int, before: int = before, total: int = total) -> None:
            if progress is not None:
                progress(min(before + count, total), total)

        if path.suffix == ".sqlite" or _first_bytes(path) == MAGIC:
            timelines += read_report(path, matcher, on_bytes=on_bytes)
        else:
            collector = ChromeCollector(path, matcher)
            for events in read_events(path, on_bytes=on_bytes):
                collector.add(events)
            timelines.append(collector.timeline())
    return timelines


def _first_bytes(path: Path) -> bytes:
    """What a file begins with."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC))
    except OSError as error:
        raise InputError(value=path.name, rule=f"the file can be read ({error.strerror})", place=str(path)) from None


def _check_names(files: Sequence[FileSamples], names: LayerNames, scopes: Counter[str], *, place: str) -> list[str]:
    """Refuse names that no trace has, except those of a default head or tail, which become notes."""
    seen = {sample.match for file in files for sample in file.samples}
    notes = []
    default = LayerNames()
    for role in (BODY, HEAD, TAIL):
        missing = [name for name in names.of(role) if (role, name) not in seen]
        if not missing:
            continue
        if role == BODY or names.of(role) != default.of(role):
            raise InputError(
                value=missing[0],
                rule=f"a {role} layer of this name is in a trace, within a forward; there are {names_there(scopes)}",
                place=place,
                remedy=f"name the layers of your model with --{role}",
            )
        notes.append(f"no trace has a {role} layer named {' or '.join(missing)}")
    return notes


def _check_layers(files: Sequence[FileSamples], num_layers: int | None) -> None:
    for file in files:
        if num_layers is not None and (file.num_layers or 0) > num_layers:
            raise InputError(
                value=num_layers,
                rule=f"a stage has no more layers than the model; this one runs {file.num_layers}",
                place=f"{file.file}: layers",
                remedy="check the number of layers and the names of the body",
            )


def _layer_time(files: Sequence[FileSamples], name: str, *, place: str) -> BlockTime:
    """The time of a layer kind."""
    block = block_time(files, BODY, (name,))
    assert block is not None
    if block.forward_ns < 1:
        raise InputError(
            value=name,
            rule="a layer takes time, but its scopes launch nothing on the device",
            place=place,
            remedy="profile the host and the device together",
        )
    return block
