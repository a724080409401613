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

from dataclasses import dataclass
from pathlib import Path

from evenflow.fields import Fields, read_text
from evenflow.profiles.init.init_peaks import BODY, read_peaks
from evenflow.profiles.init.init_planning import PIPELINE, InitPlanning, planning_of
from evenflow.profiles.init.init_rounds import RECOMPUTE, read_rounds
from evenflow.profiles.init.init_times import PROFILING, TIMES, LayerTimes, Profiling, read_profiling, read_times
from evenflow.profiles.memory.peaks import DryRuns
from evenflow.profiles.yaml_file import load_yaml, section
from evenflow.ranges import LAYERS

MEMORY = "memory_usage"
_SECTIONS = (PIPELINE, PROFILING, TIMES, RECOMPUTE, MEMORY)


@dataclass(frozen=True, slots=True, kw_only=True)
class InitFile:
    """The contents of an init file."""

    file: str
    """Name of the file, for messages."""
    num_layers: int
    dry_runs: DryRuns
    """Rounds and peaks: of the first stage, of the middle ones by round as in the file, and of the last stage."""
    times: LayerTimes | None
    """Times of `time_config`, which win over a profile as in the original."""
    profiling: Profiling | None
    planning: InitPlanning
    """What the file says to plan for, beside what was measured."""


def is_init_file(top: Fields) -> bool:
    """Return whether a YAML document has sections of an init file and nothing else."""
    return bool(top.values) and all(key in _SECTIONS for key in top.values)


def read_init_file(path: Path | str) -> InitFile:
    """Return the init file at `path`; raises `InputError` as `parse_init_file` does."""
    return parse_init_file(read_text(path), place=str(path))


def parse_init_file(text: str, *, place: str) -> InitFile:
    """Return the init file of this text; `place` names it in messages.

    Raises:
        InputError: text that is not YAML, or a field that is missing, unknown, of a wrong form, of a wrong length or
            out of range.
    """
    top = load_yaml(text, file=place)
    top.check_known(_SECTIONS)
    planning = planning_of(top)
    pipeline, memory = section(top, PIPELINE), section(top, MEMORY)
    memory.check_known(("head_memory", "tail_memory", BODY))
    body = section(memory, BODY)
    body.check_known(("stage_id", "memories"))
    num_layers = pipeline.integer("num_layer", LAYERS)
    rounds = read_rounds(top, pipeline, num_layers=num_layers, stages=body.required("stage_id"))
    return InitFile(
        file=place,
        num_layers=num_layers,
        dry_runs=DryRuns(rounds=rounds, peaks=read_peaks(memory, body, rounds), place=top.place(MEMORY)),
        times=read_times(top),
        profiling=read_profiling(top),
        planning=planning,
    )
