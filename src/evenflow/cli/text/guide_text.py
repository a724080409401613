"""The rounds of a guide as text: how exact they are, and the next commands."""

from collections.abc import Sequence
from pathlib import Path

from evenflow.language import _
from evenflow.profiles.memory.dry_run_guide import FEWEST_RANKS, Guide
from evenflow.profiles.memory.refusals import part_name


def guide_notes(guide: Guide, *, asked_ranks: int, configs: Sequence[Path] = (), init_file: Path | None = None) -> str:
    """Return the number of ranks where it is not the one asked for, how exact the fit will be, and the next commands.

    `configs` are the training YAMLs by round, where they were written.
    """
    return "\n".join([*_other_ranks(guide, asked_ranks), *_quality(guide), *_next_steps(guide, configs, init_file)])


def _other_ranks(guide: Guide, asked_ranks: int) -> list[str]:
    if guide.num_ranks == asked_ranks:
        return []
    return [
        _(
            "Dry-run with pipeline_stage {num_ranks}: peaks of {asked_ranks} stages cannot determine the memory, "
            "those of {fewest_ranks} or more can.",
            num_ranks=guide.num_ranks,
            asked_ranks=asked_ranks,
            fewest_ranks=FEWEST_RANKS,
        ),
        _(
            "Leave all other parallelism as it is: RANK_SIZE is {num_ranks}/{asked_ranks} of your devices, "
            "and a dry run needs none of them.",
            num_ranks=guide.num_ranks,
            asked_ranks=asked_ranks,
        ),
        _("What it finds is the memory of a layer, so plan with your own number of stages."),
        "",
    ]


def _quality(guide: Guide) -> list[str]:
    last = guide.num_ranks - 1
    needed = (
        _("Peaks are needed of stages 0 to {last}, in later rounds of stages 1 to {inner}.", last=last, inner=last - 1)
        if len(guide.rounds) > 1
        else _("Peaks are needed of stages 0 to {last}.", last=last)
    )
    errors = ", ".join(f"{part_name(name)} {error:.2g}" for name, error in guide.standard_errors.items())
    return [
        needed,
        _("Condition number: {number:.1f}.", number=guide.condition_number),
        _("Errors in MB where each peak has one of 1 MB: {errors}.", errors=errors),
    ]


def _next_steps(guide: Guide, configs: Sequence[Path], init_file: Path | None) -> list[str]:
    numbers = range(1, len(guide.rounds) + 1)
    names = [str(path) for path in configs] or [f"CONFIG{number}" for number in numbers]
    folders = [f"output_dryrun{number}" for number in numbers]
    init = init_file or "INIT.yaml"
    return [
        _("Next:"),
        *(
            f'  bash scripts/dryrun.sh "python run_mindformer.py --config {name}" RANK_SIZE {guide.num_ranks} {folder}'
            for name, folder in zip(names, folders, strict=True)
        ),
        f"  evenflow collect-peaks {' '.join(folders)} >> {init}",
        f"  evenflow fit-memory {init}",
    ]
