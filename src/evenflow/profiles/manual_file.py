"""Manual strategies: the YAML of the [SAPP guide] in which a user writes plans of their own to compare.

    manual1:
      offset: [[-1, 0, …], …]            one row a chunk; a flat list for one chunk; 0 for none
      recompute: false                   counts as for offset; true for every layer; false or 0 for none
      select_recompute: [[1, 1, …], …]
      select_comm_recompute: [[1, 1, …], …]
      interleave_num: 3
      show: True
      file_name: "manual1.svg"

What the numbers count is in `evenflow.profiles.cell_lists`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evenflow.baselines.even_plan import check_offered
from evenflow.fields import Fields, is_integer_list, is_integer_table, read_text
from evenflow.language import _
from evenflow.model import COMM, FULL, SELECT, Cells, Network, Plan, cells
from evenflow.profiles.cell_lists import RECOMPUTE_LISTS, check_counts, exclusive_counts, layers_by_cell
from evenflow.profiles.yaml_file import load_yaml, section
from evenflow.ranges import CHUNKS

_KEYS = ("offset", *RECOMPUTE_LISTS, "interleave_num", "show", "file_name")


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualEntry:
    """One strategy of a manual file."""

    name: str
    plan: Plan
    file_name: str | None
    """File name of its picture; None where none was given."""
    show: bool
    """Whether the entry asks to see its picture, which it then has also without a `file_name`."""


def read_manual_file(
    path: Path | str,
    *,
    network: Network,
    num_ranks: int,
    num_microbatches: int,
    schedule_of_chunks: Callable[[int], str],
    num_chunks: int = 1,
    sequence_splits: int = 1,
) -> tuple[ManualEntry, ...]:
    """Return the strategies of a YAML file, in order.

    `schedule_of_chunks` gives the schedule for a number of chunks; an entry without `interleave_num` has `num_chunks`.

    Raises:
        InputError: a file that cannot be read, a field that is unknown or of a wrong form, layers that do not sum to
            the network's, counts above a cell's layers, or a recompute kind without costs in the network.
    """
    file = str(path)
    document = load_yaml(read_text(path), file=file)
    entries = []
    for name in document.values:
        fields = section(document, name)
        fields.check_known(_KEYS)
        chunks = fields.integer("interleave_num", CHUNKS) if "interleave_num" in fields else num_chunks
        layers = _layers(fields, num_layers=network.num_layers, num_chunks=chunks, num_ranks=num_ranks)
        recompute = exclusive_counts(*(_counts(fields, key, layers) for key in RECOMPUTE_LISTS))
        for kind, table in recompute.items():
            check_offered(network, kind, sequence_splits=sequence_splits, place=_first_cell(fields, kind, table))
        plan = Plan(
            schedule=schedule_of_chunks(chunks),
            num_microbatches=num_microbatches,
            layers=layers,
            recompute=recompute,
            sequence_splits=sequence_splits,
        )
        file_name = fields.text("file_name") if "file_name" in fields else None
        entries.append(ManualEntry(name=name, plan=plan, file_name=file_name, show=fields.flag("show")))
    return tuple(entries)


def _layers(fields: Fields, *, num_layers: int, num_chunks: int, num_ranks: int) -> Cells:
    """Return the layers of every cell, from the offsets."""
    zeros = cells([[0] * num_ranks] * num_chunks)
    offset = zeros if fields.required("offset") == 0 else _grid(fields, "offset", zeros)
    return layers_by_cell(offset, num_layers=num_layers, place=fields.place("offset"), cell=_cell)


def _counts(fields: Fields, key: str, layers: Cells) -> Sequence[Sequence[int]]:
    """Return one cumulative list by cell: as given, every layer, or none."""
    value = fields.values.get(key, False)
    if value is True:
        return layers
    if value is False or value == 0:
        return [[0] * len(row) for row in layers]
    counts = _grid(fields, key, layers)
    check_counts(counts, layers, place=fields.place(key), cell=_cell)
    return counts


def _grid(fields: Fields, key: str, like: Cells) -> list[list[int]]:
    """Return a table of the shape of `like`; a flat list is the one row of a single chunk."""
    value = fields.values[key]
    rows = [value] if is_integer_list(value) else value
    num_chunks, num_ranks = len(like), len(like[0])
    if not is_integer_table(rows):
        other = "0" if key == "offset" else "true, false"
        raise fields.error(key, _("must be {other}, a list or a list of lists of integers", other=other))
    if len(rows) != num_chunks or any(len(row) != num_ranks for row in rows):
        rule = _(
            "must have a row for each of the {num_chunks} chunks (interleave_num) with a number for each of the "
            "{num_ranks} ranks (here the rows have {lengths})",
            num_chunks=num_chunks,
            num_ranks=num_ranks,
            lengths=[len(row) for row in rows],
        )
        raise fields.error(key, rule)
    return rows


def _cell(chunk: int, rank: int) -> str:
    """Return what a cell is called in messages."""
    return _("chunk {chunk}, rank {rank}", chunk=chunk, rank=rank)


def _first_cell(fields: Fields, kind: str, table: Cells) -> str:
    """Return the place of the first layer under a kind."""
    key = {FULL: "recompute", SELECT: "select_recompute", COMM: "select_comm_recompute"}.get(kind, "select_recompute")
    chunk, rank = next((c, r) for c, row in enumerate(table) for r, count in enumerate(row) if count)
    return f"{fields.place(key)}, {_cell(chunk, rank)}"
