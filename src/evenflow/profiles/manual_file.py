"""Manual strategies: the YAML of document 001 in which a user writes plans of their own to compare.

    manual1:
      offset: [[-1, 0, …], …]            one row a chunk; a flat list for one chunk; 0 for none
      recompute: false                   counts as for offset; true for every layer; false or 0 for none
      select_recompute: [[1, 1, …], …]
      select_comm_recompute: [[1, 1, …], …]
      interleave_num: 3
      show: True
      file_name: "manual1.svg"

A cell ``[chunk][rank]`` holds ``L // (ranks * chunks) + offset`` layers. The recompute lists are cumulative, as in the
framework's configuration: with S = max(select - full, 0) and C = max(comm - full, 0) of a cell, min(S, C) of its
layers are under `both`, and what is left of S or C is under `select` or `comm`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML, MappingNode
from ruamel.yaml.error import YAMLError

from evenflow.errors import InputError
from evenflow.model import BOTH, COMM, FULL, SELECT, Network, Plan, cells
from evenflow.model.naive import check_offered
from evenflow.profiles.fields import Fields, as_fields, is_integer_list, line_of, read_text

_LISTS = ("recompute", "select_recompute", "select_comm_recompute")
_KEYS = ("offset", *_LISTS, "interleave_num", "show", "file_name")
_MOST_CHUNKS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualEntry:
    """One strategy of the file."""

    name: str
    plan: Plan
    file_name: str | None
    """Where its picture goes."""
    show: bool
    """Whether a picture is asked for."""


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
    """The strategies of a YAML file, in order.

    `schedule_of_chunks` gives the schedule for a number of chunks; an entry without `interleave_num` has `num_chunks`.

    Raises:
        InputError: a file that cannot be read, a field that is unknown or of a wrong form, layers that do not sum to
            the network's, counts above a cell's layers, or a recompute kind without costs in the network.
    """
    file = str(path)
    document = _load_yaml(read_text(path), file)
    entries = []
    for name in document.values:
        fields = document.inner(name)
        fields = Fields(values=fields.values, file=file, path=name, lines=_lines_under(document, name))
        fields.check_known(_KEYS)
        chunks = fields.integer("interleave_num", maximum=_MOST_CHUNKS) if "interleave_num" in fields else num_chunks
        layers = _layers(fields, num_layers=network.num_layers, num_chunks=chunks, num_ranks=num_ranks)
        recompute = _recompute(fields, layers)
        for kind, table in recompute.items():
            check_offered(network, kind, sequence_splits=sequence_splits, place=_first_cell(fields, kind, table))
        plan = Plan(
            schedule=schedule_of_chunks(chunks),
            num_microbatches=num_microbatches,
            layers=cells(layers),
            recompute={kind: cells(table) for kind, table in recompute.items()},
            sequence_splits=sequence_splits,
        )
        file_name = fields.text("file_name") if "file_name" in fields else None
        entries.append(ManualEntry(name=name, plan=plan, file_name=file_name, show=_flag(fields, "show")))
    return tuple(entries)


def _layers(fields: Fields, *, num_layers: int, num_chunks: int, num_ranks: int) -> list[list[int]]:
    """Layers by cell, from the offsets."""
    each, left_over = divmod(num_layers, num_chunks * num_ranks)
    zeros = [[0] * num_ranks for _ in range(num_chunks)]
    offset = zeros if fields.required("offset") == 0 else _grid(fields, "offset", zeros)
    total = sum(map(sum, offset))
    if total != left_over:
        raise InputError(
            value=total,
            rule=f"the offsets sum to {left_over}, because {num_layers} layers on {num_ranks} ranks x {num_chunks} "
            f"chunks are {each} in each cell and {left_over} over",
            place=fields.place("offset"),
        )
    layers = [[each + extra for extra in row] for row in offset]
    for chunk, row in enumerate(layers):
        for rank, count in enumerate(row):
            if count < 0:
                raise InputError(
                    value=offset[chunk][rank],
                    rule=f"an offset is {-each} or more, because a cell has {each} layers before it",
                    place=f"{fields.place('offset')}, chunk {chunk}, rank {rank}",
                )
    return layers


def _recompute(fields: Fields, layers: list[list[int]]) -> dict[str, list[list[int]]]:
    """Exclusive counts by kind, from the cumulative lists; kinds that no layer has are left out."""
    full, select, comm = (_counts(fields, key, layers) for key in _LISTS)
    tables: dict[str, list[list[int]]] = {
        kind: [[0] * len(row) for row in layers] for kind in (FULL, BOTH, SELECT, COMM)
    }
    for chunk, row in enumerate(layers):
        for rank in range(len(row)):
            fully = full[chunk][rank]
            beyond_select, beyond_comm = max(select[chunk][rank] - fully, 0), max(comm[chunk][rank] - fully, 0)
            both = min(beyond_select, beyond_comm)
            counts = {FULL: fully, BOTH: both, SELECT: beyond_select - both, COMM: beyond_comm - both}
            for kind, count in counts.items():
                tables[kind][chunk][rank] = count
    return {kind: table for kind, table in tables.items() if any(map(any, table))}


def _counts(fields: Fields, key: str, layers: list[list[int]]) -> list[list[int]]:
    """One cumulative list by cell: given, every layer, or none."""
    value = fields.values.get(key, False)
    if value is True:
        return layers
    if value is False or value == 0:
        return [[0] * len(row) for row in layers]
    counts = _grid(fields, key, layers)
    for chunk, row in enumerate(counts):
        for rank, count in enumerate(row):
            if not 0 <= count <= layers[chunk][rank]:
                raise InputError(
                    value=count,
                    rule=f"a count is from 0 to the {layers[chunk][rank]} layers of its cell",
                    place=f"{fields.place(key)}, chunk {chunk}, rank {rank}",
                )
    return counts


def _grid(fields: Fields, key: str, like: list[list[int]]) -> list[list[int]]:
    """A table of the shape of `like`; a flat list is the one row of a single chunk."""
    value = fields.values[key]
    rows = [value] if is_integer_list(value) else value
    num_chunks, num_ranks = len(like), len(like[0])
    if not isinstance(rows, list) or not all(is_integer_list(row) for row in rows):
        other = "0" if key == "offset" else "true, false"
        raise InputError(value=value, rule=f"{other}, a list or a list of lists of integers", place=fields.place(key))
    if len(rows) != num_chunks or any(len(row) != num_ranks for row in rows):
        raise InputError(
            value=value,
            rule=f"a row for each of the {num_chunks} chunks (interleave_num), a number for each of {num_ranks} ranks; "
            f"here the rows have {[len(row) for row in rows]}",
            place=fields.place(key),
        )
    return rows


def _flag(fields: Fields, key: str) -> bool:
    value = fields.values.get(key, False)
    if not isinstance(value, bool):
        raise InputError(value=value, rule="true or false", place=fields.place(key))
    return value


def _first_cell(fields: Fields, kind: str, table: list[list[int]]) -> str:
    """Where a kind is first used."""
    key = {FULL: "recompute", SELECT: "select_recompute", COMM: "select_comm_recompute"}.get(kind, "select_recompute")
    chunk, rank = next((c, r) for c, row in enumerate(table) for r, count in enumerate(row) if count)
    return f"{fields.place(key)}, chunk {chunk}, rank {rank}"


def _load_yaml(text: str, file: str) -> Fields:
    """The document as an object, with the lines of its names and their fields."""
    yaml = YAML(typ="safe", pure=True)
    try:
        values = yaml.load(text)
        node = yaml.compose(text)
    except (YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{file}, line {mark.line + 1}, column {mark.column + 1}" if mark else file
        value = line_of(text, mark.line + 1) if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        raise InputError(value=value, rule=f"not YAML: {problem}", place=place) from None
    fields = as_fields(values, file=file)
    return Fields(values=fields.values, file=file, lines=_lines(node))


def _lines(document: MappingNode) -> Mapping[str, int]:
    """Line of every name (``manual1``) and of the fields under it (``manual1.offset``)."""
    lines = {}
    for name, entry in document.value:
        lines[name.value] = name.start_mark.line + 1
        for key, _ in entry.value if isinstance(entry, MappingNode) else ():
            lines[f"{name.value}.{key.value}"] = key.start_mark.line + 1
    return lines


def _lines_under(document: Fields, name: str) -> Mapping[str, int]:
    prefix = name + "."
    return {key.removeprefix(prefix): line for key, line in document.lines.items() if key.startswith(prefix)}
