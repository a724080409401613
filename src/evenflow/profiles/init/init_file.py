"""Init files: the YAML of the [SAPP guide] with what was profiled and dry-run, from which a layer file is made.

    pipeline_config:
      pipeline_num: 4
      num_layer: 80
      offset: [[0, 1, -1, 0], [0, -1, 1, 0]]     a list a round; one list for one round; 0 for none
    recompute_config:
      recompute: [[1, 2, 1, 1], [1, 3, 4, 1]]    likewise; true for every layer, false for none
      select_recompute: [false, false]
      select_comm_recompute: false
    memory_usage:
      head_memory: 66502                         MB; stages 0 and 3 of the first round
      tail_memory: 25599
      body_memories:
        stage_id: [[1, 2], [1, 2]]
        memories: [[52536, 35595], [45439, 35700]]
    time_config: {head: 1.2, body: 21.9, tail: 17.9}     forward in ms, or:
    profiling_config: {micro_batch_num: 8, folder_path: "/timeline/path"}

What the numbers of a round count is in `evenflow.profiles.cell_lists`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenflow.errors import InputError
from evenflow.fields import Fields, is_integer_list, read_text
from evenflow.model import Cells, Plan
from evenflow.profiles.cell_lists import RECOMPUTE_LISTS, check_counts, exclusive_counts, layers_by_cell
from evenflow.profiles.init.init_times import PROFILING, TIMES, LayerTimes, Profiling, read_profiling, read_times
from evenflow.profiles.memory.peaks import DryRuns, Peak
from evenflow.profiles.yaml_file import load_yaml, section
from evenflow.units import bytes_from_megabytes

_PIPELINE, _RECOMPUTE, _MEMORY, _BODY = "pipeline_config", "recompute_config", "memory_usage", "body_memories"
_SECTIONS = (_PIPELINE, PROFILING, TIMES, _RECOMPUTE, _MEMORY)
_WITHOUT_MEANING = (
    "micro_batch_num", "num_of_interleave", "vpp_less_memory", "optimization_level", "memory_limit", "constant_memory",
    "enable_simulation", "sim_comm_time", "use_backward_time",
)  # fmt: skip
"""Fields of the pipeline that other tools read from the same file; here the command line says them."""
_FEWEST_STAGES = 3
_MOST_STAGES = 10_000
_MOST_LAYERS = 1_000_000
_STAGE = "stage {rank}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InitFile:
    """An init file."""

    file: str
    num_layers: int
    dry_runs: DryRuns
    """The rounds and the peaks: first stage, middle ones by round as in the file, last stage."""
    times: LayerTimes | None
    """From `time_config`, which wins over a profile as in the original."""
    profiling: Profiling | None
    ignored: tuple[str, ...]
    """Fields that are there and mean nothing here."""


def read_init_file(path: Path | str) -> InitFile:
    """The init file at `path`.

    Raises:
        InputError: a file that cannot be read or is not YAML, or a field that is missing, unknown, of a wrong form, of
            a wrong length or out of range.
    """
    return parse_init_file(read_text(path), file=str(path))


def parse_init_file(text: str, *, file: str) -> InitFile:
    """The init file of this text; `file` names it in messages. Raises `InputError` as `read_init_file` does."""
    top = load_yaml(text, file=file)
    top.check_known(_SECTIONS)
    pipeline, memory = section(top, _PIPELINE), section(top, _MEMORY)
    pipeline.check_known(("pipeline_num", "num_layer", "offset", *_WITHOUT_MEANING))
    memory.check_known(("head_memory", "tail_memory", _BODY))
    body = section(memory, _BODY)
    body.check_known(("stage_id", "memories"))
    num_layers = pipeline.integer("num_layer", maximum=_MOST_LAYERS)
    rounds = _rounds(pipeline, top, body, num_layers)
    return InitFile(
        file=file,
        num_layers=num_layers,
        dry_runs=DryRuns(rounds=rounds, peaks=_peaks(memory, body, rounds), place=top.place(_MEMORY)),
        times=read_times(top),
        profiling=read_profiling(top),
        ignored=tuple(f"{_PIPELINE}.{key}" for key in _WITHOUT_MEANING if key in pipeline),
    )


def _rounds(pipeline: Fields, top: Fields, body: Fields, num_layers: int) -> tuple[Plan, ...]:
    """One dry run a round: as many microbatches as stages, so that every stage reaches its peak."""
    num_stages = pipeline.integer("pipeline_num", maximum=_MOST_STAGES)
    if num_stages < _FEWEST_STAGES:
        raise InputError(
            value=num_stages,
            rule=f"{_FEWEST_STAGES} stages or more, because only middle ones tell parameters from activations",
            place=pipeline.place("pipeline_num"),
            remedy="dry-run the model with more stages; the memory of a layer stays the same",
        )
    num_rounds = _num_rounds(pipeline, body)
    layers = []
    for name, given in _by_round(pipeline, "offset", num_rounds):
        offset = [0] * num_stages if given is False else _row(given, num_stages, place=name, other="0")
        layers.append(layers_by_cell([offset], num_layers=num_layers, place=name, cell=_STAGE))
    recompute = section(top, _RECOMPUTE) if _RECOMPUTE in top else Fields(values={}, file=top.file, path=_RECOMPUTE)
    recompute.check_known(RECOMPUTE_LISTS)
    counts = [_counts(recompute, key, layers) for key in RECOMPUTE_LISTS]
    return tuple(
        Plan(
            schedule="1f1b",
            num_microbatches=num_stages,
            layers=layers[index],
            recompute=exclusive_counts(*(rows[index] for rows in counts)),
        )
        for index in range(num_rounds)
    )


def _num_rounds(pipeline: Fields, body: Fields) -> int:
    """As many as the offsets say, or the stages where the offsets are the same for all."""
    offset, stages = pipeline.required("offset"), body.required("stage_id")
    if offset is None:
        raise InputError(value=offset, rule="0, a list of integers or a list of lists", place=pipeline.place("offset"))
    for rows in (offset, stages):
        if isinstance(rows, list) and _nested(rows):
            return len(rows)
    return 1


def _counts(fields: Fields, key: str, layers: Sequence[Cells]) -> list[Cells]:
    """One cumulative list by round: given, every layer, or none."""
    tables = []
    for (name, given), own in zip(_by_round(fields, key, len(layers)), layers, strict=True):
        if isinstance(given, bool):
            tables.append(own if given else ((0,) * len(own[0]),))
            continue
        row = _row(given, len(own[0]), place=name, other="true, false")
        check_counts([row], own, place=name, cell=_STAGE)
        tables.append((tuple(row),))
    return tables


def _by_round(fields: Fields, key: str, num_rounds: int) -> list[tuple[str, object]]:
    """What `key` says of each round, with its name for messages; none and 0 are false, one word goes for all rounds."""
    value, name = fields.values.get(key), fields.place(key)
    if value is None or isinstance(value, bool) or value == 0:
        return [(name, value or False)] * num_rounds
    entries = value if _nested(value) or num_rounds > 1 else [value]
    if not isinstance(entries, list) or len(entries) != num_rounds:
        raise InputError(value=value, rule=f"an entry for each round, here {num_rounds}", place=name)
    several = num_rounds > 1
    return [
        (f"{name}, round {index + 1}" if several else name, entry if entry != 0 else False)
        for index, entry in enumerate(entries)
    ]


def _nested(value: object) -> bool:
    """Whether `value` has an entry for each round."""
    return isinstance(value, list) and any(isinstance(entry, list | bool) for entry in value)


def _row(value: object, num_stages: int, *, place: str, other: str) -> list[int]:
    """A list of one integer a stage."""
    if not is_integer_list(value):
        raise InputError(
            value=value, rule=f"{other}, a list of integers, or a list of such for each round", place=place
        )
    assert isinstance(value, list)
    if len(value) != num_stages:
        raise InputError(
            value=value, rule=f"a number for each of the {num_stages} stages; here are {len(value)}", place=place
        )
    return value


def _peaks(memory: Fields, body: Fields, rounds: Sequence[Plan]) -> tuple[Peak, ...]:
    last = rounds[0].num_ranks - 1
    peaks = [Peak(round_index=0, rank=0, peak_bytes=_peak(memory, "head_memory"))]
    ids = _lists_by_round(body, "stage_id", len(rounds))
    sizes = _lists_by_round(body, "memories", len(rounds))
    for index, ((name, stages), (sizes_name, megabytes)) in enumerate(zip(ids, sizes, strict=True)):
        _check_stages(stages, last, place=name)
        if len(megabytes) != len(stages):
            raise InputError(
                value=megabytes,
                rule=f"a memory for each of the {len(stages)} stages of stage_id; here are {len(megabytes)}",
                place=sizes_name,
            )
        for entry, (stage, size) in enumerate(zip(stages, megabytes, strict=True)):
            one = Fields(values={"": size}, file=f"{sizes_name}, entry {entry + 1} (stage {stage})")
            peaks.append(Peak(round_index=index, rank=stage, peak_bytes=_peak(one, "")))
    return (*peaks, Peak(round_index=0, rank=last, peak_bytes=_peak(memory, "tail_memory")))


def _lists_by_round(fields: Fields, key: str, num_rounds: int) -> list[tuple[str, list[Any]]]:
    """A list for each round; a flat list is that of a single round."""
    value = fields.required(key)
    rows = value if isinstance(value, list) and any(isinstance(row, list) for row in value) else [value]
    if len(rows) != num_rounds or not all(isinstance(row, list) and row for row in rows):
        raise InputError(
            value=value,
            rule=f"a list of lists, one for each of the {num_rounds} rounds" if num_rounds > 1 else "a list of numbers",
            place=fields.place(key),
        )
    place = fields.place(key)
    return [(f"{place}, round {index + 1}" if num_rounds > 1 else place, row) for index, row in enumerate(rows)]


def _check_stages(stages: list[Any], last: int, *, place: str) -> None:
    for stage in stages:
        if not is_integer_list([stage]) or not 0 < stage < last:
            raise InputError(
                value=stage,
                rule=f"a middle stage, from 1 to {last - 1}",
                place=place,
                remedy=f"stages 0 and {last} are head_memory and tail_memory, those of the first round",
            )
        if stages.count(stage) > 1:
            raise InputError(value=stage, rule="a stage stands once in a round", place=place)


def _peak(fields: Fields, key: str) -> int:
    return bytes_from_megabytes(fields.number(key, above_zero=True))
