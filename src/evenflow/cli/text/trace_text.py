"""Times from profilers' timelines as text."""

from collections.abc import Sequence

from evenflow.cli.text.tables import aligned
from evenflow.language import _, _n, looked_up
from evenflow.profiles.layer_entry import PLAIN_BACKWARD_RATIO
from evenflow.profiles.traces import BlockTime, SampleSpread, TraceTimes
from evenflow.profiles.traces.trace_files import shown_name
from evenflow.units import milliseconds


def trace_text(times: TraceTimes, *, num_microbatches: int) -> str:
    """Return what was counted in each file, then every time with its spread, then the notes."""
    exchanging = [block for block in times.bodies if block.halves is not None]
    paragraphs = [_file_table(times, num_microbatches), _time_table(times)]
    if exchanging:
        paragraphs.append(_exchange_table(exchanging))
    return "\n\n".join([*paragraphs, *(_("note: {note}", note=note) for note in times.notes)])


def _blocks(times: TraceTimes) -> list[tuple[str, BlockTime]]:
    """Return the head, bodies and tail that the timelines show, with their roles."""
    ends = [[("head", times.head)], [("tail", times.tail)]]
    head, tail = [[(role, block) for role, block in end if block is not None] for end in ends]
    return [*head, *(("body", block) for block in times.bodies), *tail]


def _file_table(times: TraceTimes, num_microbatches: int) -> str:
    """Return what was counted in each file."""
    rows = [
        [
            shown_name(file.file),
            "-" if file.num_layers is None else str(file.num_layers),
            _("{counted} of {all}", counted=file.counted_steps, all=file.num_steps),
            looked_up(file.steps_from),
        ]
        for file in times.files
    ]
    sources = ", ".join(dict.fromkeys(file.source for file in times.files))
    table = aligned([_("file"), _("body layers"), _("steps counted"), _("told by")], rows, left={0, 3})
    title = _n(
        "{sources}; 1 microbatch a step",
        "{sources}; {count} microbatches a step",
        count=num_microbatches,
        sources=sources,
    )
    return f"{title}\n\n{table}"


def _time_table(times: TraceTimes) -> str:
    """Return the times of one layer for one microbatch, with their spread."""
    rows = []
    for role, block in _blocks(times):
        for phase, time_ns, spread in (
            (_("forward"), block.forward_ns, block.forward_spread),
            (_("backward"), block.backward_ns, block.backward_spread),
        ):
            if time_ns is None or spread is None:
                mean, spreads = block.known_backward_ns, ["-", "-", "-"]
                origin = _("{ratio:g} x forward, not in the traces", ratio=PLAIN_BACKWARD_RATIO)
            else:
                mean, spreads = time_ns, [_ms(value) for value in _values(spread)]
                origin = _("measured, {counted}", counted=_counted(block))
            rows.append([role, block.name, phase, _ms(mean), *spreads, origin])
    header = ["", _("layer"), "", _("ms"), _("least"), _("median"), _("most"), _("from")]
    return _("one layer, one microbatch") + "\n" + aligned(header, rows, left={0, 1, 2, 7}, leaving=(5, 4, 6))


def _exchange_table(blocks: Sequence[BlockTime]) -> str:
    """Return what layers exchange between experts, of which pairs hide some."""
    rows = []
    for block in blocks:
        assert block.halves is not None
        for phase, halves in ((_("forward"), block.halves.forward), (_("backward"), block.halves.backward)):
            rows.append([block.name, phase, *map(_ms, (halves.dispatch_ns, halves.mlp_ns, halves.combine_ns))])
    header = [_("layer"), "", _("dispatch"), _("experts"), _("combine")]
    return (
        _("of that, exchanges of tokens in ms, as far as nothing is computed beside them")
        + "\n"
        + aligned(header, rows, left={0, 1})
    )


def _counted(block: BlockTime) -> str:
    """Return how many scopes and files a time comes from."""
    return _(
        "{scopes} in {files}",
        scopes=_n("1 scope", "{count} scopes", count=len(block.scopes)),
        files=_n("1 file", "{count} files", count=len(block.files)),
    )


def _ms(time_ns: int) -> str:
    return f"{milliseconds(time_ns):,.3f}"


def _values(spread: SampleSpread) -> Sequence[int]:
    return spread.minimum_ns, spread.median_ns, spread.maximum_ns
