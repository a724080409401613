"""Times from profilers' timelines as text."""

from collections.abc import Sequence
from pathlib import Path

from evenflow.cli.text.tables import aligned
from evenflow.profiles.layer_entry import PLAIN_BACKWARD_RATIO
from evenflow.profiles.traces import BlockTime, Spread, TraceTimes
from evenflow.units import milliseconds


def trace_text(times: TraceTimes, *, num_microbatches: int) -> str:
    """Return what was counted in each file, then every time with its spread, then the notes."""
    paragraphs = [_file_table(times, num_microbatches), _time_table(times)]
    return "\n\n".join([*paragraphs, *(f"note: {note}" for note in times.notes)])


def _blocks(times: TraceTimes) -> list[tuple[str, BlockTime]]:
    """Return the head, bodies and tail that the timelines show, with their roles."""
    ends = [[("head", times.head)], [("tail", times.tail)]]
    head, tail = [[(role, block) for role, block in end if block is not None] for end in ends]
    return [*head, *(("body", block) for block in times.bodies), *tail]


def _file_table(times: TraceTimes, num_microbatches: int) -> str:
    """Return what was counted in each file."""
    rows = [
        [
            Path(file.file).name,
            "-" if file.num_layers is None else str(file.num_layers),
            f"{file.counted_steps} of {file.num_steps}",
            file.steps_from,
        ]
        for file in times.files
    ]
    sources = ", ".join(dict.fromkeys(file.source for file in times.files))
    table = aligned(["file", "body layers", "steps counted", "told by"], rows, left={0, 3})
    plural = "es" if num_microbatches > 1 else ""
    return f"{sources}; {num_microbatches} microbatch{plural} a step\n\n{table}"


def _time_table(times: TraceTimes) -> str:
    """Return the times of one layer for one microbatch, with their spread."""
    rows = []
    for role, block in _blocks(times):
        for phase, time_ns, spread in (
            ("forward", block.forward_ns, block.forward_spread),
            ("backward", block.backward_ns, block.backward_spread),
        ):
            if time_ns is None or spread is None:
                mean, spreads = block.known_backward_ns, ["-", "-", "-"]
                origin = f"{PLAIN_BACKWARD_RATIO:g} x forward, not in the traces"
            else:
                mean, spreads = time_ns, [_ms(value) for value in _values(spread)]
                origin = f"measured, {_counted(block)}"
            rows.append([role, block.name, phase, _ms(mean), *spreads, origin])
    header = ["", "layer", "", "ms", "least", "median", "most", "from"]
    return "one layer, one microbatch\n" + aligned(header, rows, left={0, 1, 2, 7})


def _counted(block: BlockTime) -> str:
    """Return how many scopes and files a time comes from."""
    layers = f"{len(block.scopes)} scope{'s' if len(block.scopes) > 1 else ''}"
    return f"{layers} in {len(block.files)} file{'s' if len(block.files) > 1 else ''}"


def _ms(time_ns: int) -> str:
    return f"{milliseconds(time_ns):,.3f}"


def _values(spread: Spread) -> Sequence[int]:
    return spread.minimum_ns, spread.median_ns, spread.maximum_ns
