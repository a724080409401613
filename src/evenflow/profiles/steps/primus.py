"""Primus: the folder of ``--dump_pp_data``, with ``config.json`` and ``pp_rank_0.json``, ``pp_rank_1.json``, …

A rank's file has an object for each iteration, under its number: ``fwd_start``, ``fwd_end``, ``bwd_start``, … are lists
of ms since the iteration began on that rank, in the order in which they ran, ``total`` is its length and ``memory`` the
most that the allocator had reserved until then, in units of 2**30 bytes. ``fwd_minibatch`` and ``fwd_chunk`` are there
where Primus' own schedules ran; Megatron's record no more than times.
"""

import statistics
from pathlib import Path

from evenflow.errors import InputError
from evenflow.fields import Fields, as_fields, load_json, read_text
from evenflow.language import _
from evenflow.profiles.steps.measured_step import MOST_RANKS, MeasuredStep
from evenflow.profiles.steps.rank_records import BACKWARD, FORWARD, WEIGHT, RankRecord, Records, step_of_records
from evenflow.ranges import CHUNKS, MEGABYTES, MICROBATCHES, MILLISECONDS, Range
from evenflow.units import bytes_from_megabytes, nanoseconds_from_milliseconds

CONFIG = "config.json"
RANK_FILE = "pp_rank_{rank}.json"
UNSTEADY = 2
"""Iterations at the start in which devices warm up; left out where there are more."""
_KINDS = {FORWARD: "fwd", BACKWARD: "bwd", WEIGHT: "wgrad"}
_GIGABYTES = Range(least=0, most=MEGABYTES.most / 1024, is_whole=False, unit="GB")


def is_primus(folder: Path) -> bool:
    """Return whether a folder is one that Primus dumped."""
    return (folder / RANK_FILE.format(rank=0)).is_file()


def read_primus(folder: Path) -> MeasuredStep:
    """Return the iteration of median length of those that are steady.

    Raises:
        InputError: a file that is missing or damaged, or an iteration that is not whole.
    """
    config = _object(folder / CONFIG)
    num_ranks = config.integer("pp_size", MOST_RANKS)
    num_chunks = config.integer("vp_size" if "vp_size" in config else "vpp_size", CHUNKS)
    num_microbatches = config.integer("num_mbs" if "num_mbs" in config else "micro_batches", MICROBATCHES)
    ranks = [_object(folder / RANK_FILE.format(rank=rank)) for rank in range(num_ranks)]
    iteration, notes = _steady(ranks, place=str(folder))
    records = [_record(rank.inner(iteration), num_chunks, num_microbatches) for rank in ranks]
    return step_of_records(
        records,
        num_chunks=num_chunks,
        num_microbatches=num_microbatches,
        name=_("iteration {number}", number=iteration),
        place=_("{folder}, iteration {number}", folder=str(folder), number=iteration),
        notes=notes,
    )


def _steady(ranks: list[Fields], *, place: str) -> tuple[str, list[str]]:
    """Return the number of the iteration of median length, by the first rank, and what to say of it."""
    everywhere = set(ranks[0].values).intersection(*(rank.values for rank in ranks))
    numbers = sorted((key for key in everywhere if key.isascii() and key.isdigit() and len(key) < 10), key=int)
    if not numbers:
        raise InputError(
            rule=_("must have an iteration that every rank recorded"),
            place=place,
            remedy=_("take the files of one run"),
        )
    steady = numbers[UNSTEADY:] or numbers[-1:]
    lengths = {number: ranks[0].inner(number).number("total", MILLISECONDS) for number in steady}
    median = statistics.median_low(lengths.values())
    chosen = next(number for number in steady if lengths[number] == median)
    note = _("Iteration {number}: of median length of {count} that are steady.", number=chosen, count=len(steady))
    return chosen, [note]


def _record(step: Fields, num_chunks: int, num_microbatches: int) -> RankRecord:
    """Return what a rank recorded of an iteration."""
    by_kind = {kind: _records(step, prefix, num_chunks, num_microbatches) for kind, prefix in _KINDS.items()}
    if not by_kind[WEIGHT].spans_ns:
        del by_kind[WEIGHT]
    peak = None
    if step.values.get("memory") is not None:
        peak = bytes_from_megabytes(step.number("memory", _GIGABYTES) * 1024)
    return RankRecord(by_kind=by_kind, peak_bytes=peak)


def _records(step: Fields, prefix: str, num_chunks: int, num_microbatches: int) -> Records:
    starts, ends = (_times(step, f"{prefix}_{side}") for side in ("start", "end"))
    if len(starts) != len(ends):
        raise step.error(f"{prefix}_end", _("must have as many times as {name}", name=f"{prefix}_start"))
    spans = list(zip(starts, ends, strict=True))
    if any(end < start for start, end in spans):
        raise step.error(f"{prefix}_end", _("must not be before the start"))
    microbatches, chunks = f"{prefix}_minibatch", f"{prefix}_chunk"
    if not step.values.get(microbatches):
        return Records(spans_ns=spans, cells=None if spans else ())
    within = Range(least=0, most=num_microbatches - 1), Range(least=0, most=num_chunks - 1)
    of_which = step.integers(microbatches, within[0], length=len(spans))
    in_which = step.integers(chunks, within[1], length=len(spans)) if step.values.get(chunks) else (0,) * len(spans)
    return Records(spans_ns=spans, cells=list(zip(of_which, in_which, strict=True)))


def _times(step: Fields, key: str) -> list[int]:
    """Return a list of times in nanoseconds; an absent one is empty."""
    values = step.values.get(key, [])
    if not isinstance(values, list) or not all(value in MILLISECONDS for value in values):
        raise step.error(key, _("must be a list of times in ms"))
    return [nanoseconds_from_milliseconds(value) for value in values]


def _object(path: Path) -> Fields:
    return as_fields(load_json(read_text(path), file=str(path)), file=str(path))
