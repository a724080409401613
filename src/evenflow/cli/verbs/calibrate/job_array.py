"""Planned runs as the script of a job array."""

import re
import shlex
from collections.abc import Iterator, Sequence

from evenflow.cli.text.display_width import wrapped
from evenflow.language import _
from evenflow.profiles.measured.planned_runs import PlannedRun
from evenflow.targets.target import Written

_ENDINGS = {"yaml": ".yaml", "toml": ".toml", "python": ".py", "json": ".json", "csv": ".csv"}
_ARRAY = re.compile(r"^(\w+)=\(", re.MULTILINE)
_END = "END_OF_SETTINGS"
_WIDTH = 100


def job_array(runs: Sequence[PlannedRun], written: Sequence[Written], *, stem: str, command: str) -> str:
    """Return a shell script that runs one of the runs, by the index of a SLURM array or by its first argument.

    `written` has what the framework is told of each run; empty without a framework. `command` reads the logs back.
    """
    nodes = max(_nodes(run) for run in runs)
    cases = [
        line
        for index, run in enumerate(runs)
        for line in (f"{index})", *_neutral(run), *(_settings(written[index], run) if written else ()), "  ;;")
    ]
    return "\n".join(
        [
            "#!/bin/bash",
            f"#SBATCH --job-name={shlex.quote(stem)}",
            f"#SBATCH --array=0-{len(runs) - 1}",
            f"#SBATCH --nodes={nodes}",
            *_comments(
                *wrapped(
                    _(
                        "One training of some twenty steps for each index. TRAIN is the command that starts it on "
                        "every node: it finds what to run in the variables below, flags of the framework in its "
                        "arguments, and files of the framework in SETTINGS_FOLDER."
                    ),
                    _WIDTH,
                ),
                _("To read the logs back:"),
                command,
            ),
            "set -eu",
            ': "${TRAIN:?' + _("must be the command that trains") + '}"',
            "RUN=${SLURM_ARRAY_TASK_ID:-${1:?" + _("must be the index of a run") + "}}",
            "SETTINGS=()",
            'case "$RUN" in',
            *cases,
            '*) echo "no run $RUN" >&2; exit 2 ;;',
            "esac",
            f'exec > {shlex.quote(stem)}-"$RUN".log 2>&1',
            'srun --nodes="$NODES" --ntasks-per-node=1 $TRAIN ${SETTINGS[@]+"${SETTINGS[@]}"}',
            "",
        ]
    )


def _comments(*sentences: str) -> Iterator[str]:
    for sentence in sentences:
        yield from (f"# {line}" for line in sentence.splitlines())


def _nodes(planned: PlannedRun) -> int:
    return -(-(planned.run.gpus or 1) // (planned.run.gpus_per_node or 1))


def _neutral(planned: PlannedRun) -> Iterator[str]:
    run = planned.run
    values = {
        "NODES": _nodes(planned), "GPUS": run.gpus, "TENSOR": run.tp, "CONTEXT": run.cp, "PIPELINE": run.pp,
        "CHUNKS": run.vpp, "DATA": run.dp, "EXPERT": run.ep, "MICROBATCH": run.mbs, "GLOBAL_BATCH": run.gbs,
        "SEQUENCE": run.seq, "RECOMPUTE": run.recompute, "PRECISION": run.precision, "MODEL": run.model,
    }  # fmt: skip
    yield "  export " + " ".join(f"{name}={shlex.quote(str(value))}" for name, value in values.items())


def _settings(written: Written, planned: PlannedRun) -> Iterator[str]:
    """Yield what a framework takes: arrays of flags become arguments, any other text a file in the run's folder.

    Files keep their names, by which they may name each other.
    """
    for name, value in written.environment.items():
        yield f"  export {name}={shlex.quote(value)}"
    folder = shlex.quote(planned.run.id)
    yield f"  export SETTINGS_FOLDER={folder}"
    for number, piece in enumerate(written.pieces):
        arrays = _ARRAY.findall(piece.text) if piece.syntax == "shell" else []
        if arrays:
            yield from (f"  {line}" for line in piece.text.rstrip().splitlines())
            yield "  SETTINGS+=(" + " ".join(f'"${{{array}[@]}}"' for array in arrays) + ")"
            continue
        file = piece.file_name or f"settings-{number}{_ENDINGS.get(piece.syntax, '.txt')}"
        yield f"  mkdir -p {folder}"
        yield f"  cat > {folder}/{shlex.quote(file)} <<'{_END}'"
        yield from piece.text.rstrip().splitlines()
        yield _END
