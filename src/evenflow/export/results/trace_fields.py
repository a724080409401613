"""Times of head, body and tail from profilers' timelines."""

from collections.abc import Sequence

from evenflow.profiles.layer_entry import halves_entry
from evenflow.profiles.traces import BlockTime, SampleSpread, TraceTimes
from evenflow.units import milliseconds


def trace_fields(times: TraceTimes, *, layer_counts: Sequence[int], num_microbatches: int) -> dict[str, object]:
    """Return every time with its spread, and what was counted in each file."""
    return {
        "microbatches": num_microbatches,
        "layers": list(layer_counts),
        "head": None if times.head is None else _block(times.head),
        "bodies": [_block(block) for block in times.bodies],
        "tail": None if times.tail is None else _block(times.tail),
        "files": [
            {
                "file": file.file,
                "source": file.source,
                "body_layers": file.num_layers,
                "steps": file.num_steps,
                "steps_counted": file.counted_steps,
                "steps_from": file.steps_from,
            }
            for file in times.files
        ],
        "notes": list(times.notes),
    }


def _block(block: BlockTime) -> dict[str, object]:
    return {
        "name": block.name,
        "forward_ms": milliseconds(block.forward_ns),
        "forward_spread_ms": _spread(block.forward_spread),
        "backward_ms": milliseconds(block.known_backward_ns),
        "backward_measured": block.backward_ns is not None,
        "backward_spread_ms": None if block.backward_spread is None else _spread(block.backward_spread),
        "halves_ms": None if block.halves is None else halves_entry(block.halves),
        "samples": block.num_samples,
        "scopes": list(block.scopes),
        "files": list(block.files),
    }


def _spread(spread: SampleSpread) -> dict[str, float]:
    return {
        "minimum": milliseconds(spread.minimum_ns),
        "median": milliseconds(spread.median_ns),
        "maximum": milliseconds(spread.maximum_ns),
    }
