"""A folder of traces, each of one pipeline stage, as the times of head, body and tail."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evenflow.errors import InputError
from evenflow.fields import read_head
from evenflow.language import _
from evenflow.profiles.traces.formats.chrome import read_chrome_trace
from evenflow.profiles.traces.formats.nsight import read_report
from evenflow.profiles.traces.formats.nsight_tables import MAGIC
from evenflow.profiles.traces.layer_times import BlockTime, block_time
from evenflow.profiles.traces.names import BODY, HEAD, TAIL, LayerNames, NameMatcher, names_there
from evenflow.profiles.traces.samples import FileReport, FileSamples, samples_of
from evenflow.profiles.traces.trace import Trace
from evenflow.profiles.traces.trace_files import trace_files

TraceProgress = Callable[[int, int], None]
"""Called with the bytes read and the bytes in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceTimes:
    """Times of head, body and tail from a folder of traces."""

    head: BlockTime | None
    bodies: tuple[BlockTime, ...]
    """Times of the body names, in their order."""
    tail: BlockTime | None
    files: tuple[FileReport, ...]
    notes: tuple[str, ...]
    """Sentences that a reader should know."""


def read_traces(
    folder: Path | str,
    *,
    num_microbatches: int,
    num_layers: int | None = None,
    names: LayerNames | None = None,
    progress: TraceProgress | None = None,
) -> TraceTimes:
    """Return the times in the traces of a folder (or in one file): Ascend, PyTorch, Nsight Systems.

    `num_microbatches` is that of the profiled run; no stage may have more than `num_layers` layers. A head or tail of
    the default names may be missing; every other name must be in some trace.

    Raises:
        InputError: no trace, a trace that is damaged or does not show the layers or the steps.
    """
    names = names or LayerNames()
    if num_microbatches < 1:
        raise InputError(value=num_microbatches, rule=_("must be at least 1"), place="microbatches")
    there = trace_files(Path(folder))
    traces = _read_files([file.path for file in there.files], NameMatcher(names), progress)
    scopes: Counter[str] = Counter()
    for trace in traces:
        scopes.update(trace.scopes)
    files = [samples_of(trace, num_microbatches=num_microbatches) for trace in traces if trace.occurrences]
    notes = [there.missing_note(str(folder))] if there.is_tree and there.missing else []
    notes += [note for file in files for note in file.notes]
    notes += [_("{file}: none of the layers", file=trace.file) for trace in traces if not trace.occurrences]
    notes += _check_names(files, names, scopes, place=str(folder))
    _check_layers(files, num_layers)
    return TraceTimes(
        head=block_time(files, HEAD, names.head),
        bodies=tuple(_layer_time(files, name, place=str(folder)) for name in names.body),
        tail=block_time(files, TAIL, names.tail),
        files=tuple(file.report for file in files),
        notes=tuple(dict.fromkeys(notes)),
    )


def _read_files(paths: Sequence[Path], matcher: NameMatcher, progress: TraceProgress | None) -> list[Trace]:
    """Return what all files say; a report of several processes is several traces."""
    sizes = [path.stat().st_size for path in paths]
    traces: list[Trace] = []
    for index, path in enumerate(paths):
        before, total = sum(sizes[:index]), sum(sizes)

        def on_bytes(count: int, before: int = before, total: int = total) -> None:
            if progress is not None:
                progress(min(before + count, total), total)

        if is_report(path):
            traces += read_report(path, matcher, on_bytes=on_bytes)
        else:
            traces.append(read_chrome_trace(path, matcher, on_bytes=on_bytes))
    return traces


def is_report(path: Path) -> bool:
    """Return whether a file is an export of Nsight Systems, by its name or its beginning."""
    return path.suffix == ".sqlite" or read_head(path, len(MAGIC)) == MAGIC


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
                rule=_(
                    "must have a {role} layer of this name within a forward; it has {there}",
                    role=role,
                    there=names_there(scopes),
                ),
                place=place,
                remedy=_("name the layers of your model with {option}", option=names.given_by.format(role=role)),
            )
        notes.append(_("no trace has a {role} layer named {names}", role=role, names=_(" or ").join(missing)))
    return notes


def _check_layers(files: Sequence[FileSamples], num_layers: int | None) -> None:
    """Refuse traces that show fewer layers than a stage runs."""
    for report in (file.report for file in files):
        if num_layers is not None and (report.num_layers or 0) > num_layers:
            raise InputError(
                value=num_layers,
                rule=_("must be at least the {num_layers} that this stage runs", num_layers=report.num_layers),
                place=f"{report.file}: layers",
                remedy=_("check the number of layers and the names of the body"),
            )


def _layer_time(files: Sequence[FileSamples], name: str, *, place: str) -> BlockTime:
    """Return the time of a layer kind."""
    block = block_time(files, BODY, (name,))
    assert block is not None
    if block.forward_ns < 1:
        raise InputError(
            value=name,
            rule=_("must have layers that take time, but the scopes of this one launch nothing on the device"),
            place=place,
            remedy=_("profile the host and the device together"),
        )
    return block
