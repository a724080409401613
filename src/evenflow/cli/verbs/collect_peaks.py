"""The verb ``evenflow collect-peaks``."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import click

from evenflow.asking import asked_as, optional
from evenflow.cli.shared import options
from evenflow.cli.shared.files.input_files import STANDARD_INPUT, standard_input
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.request_options import options_as
from evenflow.cli.shared.result_files import paths_of
from evenflow.errors import FileError, InputError
from evenflow.export.dry_run_text import format_memory_usage
from evenflow.export.results.dry_run_fields import peaks_fields
from evenflow.language import _
from evenflow.profiles.logs.log_lines import log_lines
from evenflow.profiles.logs.stage_peaks import PeakKind
from evenflow.questions import NUM_RANKS
from evenflow.ranges import DEVICES
from evenflow.targets.frameworks.mindformers.peak_logs import parse_peak_lines, read_peak_folder
from evenflow.targets.megatron_family.rank_peaks import parse_rank_lines
from evenflow.units import megabytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectPeaksOptions:
    """What ``evenflow collect-peaks`` is asked for beside its logs: an option for each field."""

    used: bool = optional(
        "--used", default=False, help="Collect peaks without fragments: MindSpore's 'Used', Megatron-LM's 'allocated'."
    )
    ranks: int | None = field(
        default=None, metadata=asked_as(NUM_RANKS, help="Pipeline ranks; all of them must have a peak.")
    )
    ranks_per_stage: int | None = optional(
        "--ranks-per-stage",
        DEVICES,
        metavar="N",
        help="For the output of Megatron-LM: its ranks divided by the pipeline ranks.",
    )
    json_file: Path | None = field(default=None, metadata=options.JSON_FILE)
    overwrite: bool = field(default=False, metadata=options.OVERWRITES)


@click.command("collect-peaks")
@click.argument("sources", metavar="LOGS…", nargs=-1, required=True)
@options_as("request", CollectPeaksOptions)
def collect_peaks(sources: tuple[str, ...], request: CollectPeaksOptions) -> int:
    """Print the memory_usage block of an init file from the logs of dry runs.

    LOGS is the folder that scripts/dryrun.sh wrote, the text that grep -rn 'Actual peak' found in it, or the output of
    a Megatron-LM job; - is standard input. Several LOGS are the rounds of the guide, in their order.

    \b
    Examples:
      evenflow collect-peaks output_dryrun/ --ranks 16 >> init.yaml
      grep -rn 'Actual peak' output_dryrun | evenflow collect-peaks -
      evenflow collect-peaks round1/ round2/
      evenflow collect-peaks train.log --ranks-per-stage 8
    """
    kind, ranks = PeakKind.USED if request.used else PeakKind.ACTUAL, request.ranks
    outputs = Outputs(
        paths_of(request),
        inputs={_("the input {source}", source=source): Path(source) for source in sources},
        overwrite=request.overwrite,
    )
    if sources.count(STANDARD_INPUT) > 1:
        raise InputError(rule=_("must name standard input (-) at most once"), place="LOGS")
    rounds = [_peaks(source, kind, request.ranks_per_stage) for source in sources]
    for source, peaks in zip(sources, rounds, strict=True):
        if ranks is not None and len(peaks) != ranks:
            raise InputError(
                value=_("{count} stages", count=len(peaks)),
                rule=_("must have the peaks of all {ranks} stages of --ranks", ranks=ranks),
                place=source,
                remedy=_("look for stages whose log is missing"),
            )
    click.echo(format_memory_usage(rounds), nl=False)
    for source, peaks in zip(sources, rounds, strict=True):
        click.echo(_note(source, peaks, kind), err=True)
    outputs.write_json(lambda: peaks_fields(sources, rounds, kind))
    outputs.say(err=True)
    return 0


def _peaks(source: str, kind: PeakKind, ranks_per_stage: int | None) -> tuple[int, ...]:
    if source != STANDARD_INPUT and Path(source).is_dir():
        if ranks_per_stage is not None:
            raise InputError(
                value=source,
                rule=_("must be the output of a Megatron-LM job, which is a file, with --ranks-per-stage"),
                place="LOGS",
                remedy=_("give the file, or several with: cat FILES | evenflow collect-peaks - --ranks-per-stage N"),
            )
        return read_peak_folder(Path(source), kind=kind)
    place = _("standard input") if source == STANDARD_INPUT else source
    with _opened(source) as file:
        # Line by line: the output of a whole job can be larger than memory.
        lines = log_lines(file)
        if ranks_per_stage is None:
            return parse_peak_lines(lines, place=place, kind=kind)
        return parse_rank_lines(lines, ranks_per_stage=ranks_per_stage, place=place, kind=kind)


@contextmanager
def _opened(source: str) -> Iterator[BinaryIO]:
    if source == STANDARD_INPUT:
        yield standard_input(_("standard input"))
        return
    try:
        with Path(source).open("rb") as file:
            yield file
    except (OSError, ValueError) as error:
        raise FileError.from_os(source, error) from None


def _note(source: str, peaks: Sequence[int], kind: PeakKind) -> str:
    most = max(peaks)
    return _(
        "{source}: {kind} peaks of {count} stages, 0 to {last}; the highest is {most_mb:,.0f} MB on stage {stage}",
        source=source,
        kind=kind.value.lower(),
        count=len(peaks),
        last=len(peaks) - 1,
        most_mb=megabytes(most),
        stage=peaks.index(most),
    )
