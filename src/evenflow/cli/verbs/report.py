"""The verb ``evenflow report``."""

from dataclasses import dataclass, field
from pathlib import Path

import click

from evenflow.asking import optional
from evenflow.cli.shared import options
from evenflow.cli.shared.decided_plans import decided
from evenflow.cli.shared.files.input_files import STANDARD_INPUT, read_text, read_whole
from evenflow.cli.shared.files.output_files import JSON, PAGE, Outputs
from evenflow.cli.shared.plan_pictures import MADE_BY
from evenflow.cli.shared.request_options import options_as
from evenflow.cli.text.measured_text import measured_text
from evenflow.language import _
from evenflow.profiles.report_file import numbered
from evenflow.profiles.steps import PATTERN_OPTION, naming_of_pattern, pattern_without_timelines, read_step
from evenflow.report import Shown, report_html
from evenflow.report.json_fields import report_fields
from evenflow.report.of_files import shown_of_text, with_own_names
from evenflow.report.of_measured import shown_measured


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """What ``evenflow report`` is asked for beside its files: an option for each field."""

    output: Path = optional(
        "--output", default=Path("report.html"), letter=PAGE, metavar="FILE.html", shows_default=True, help="The page."
    )
    actions: str | None = optional(
        PATTERN_OPTION,
        metavar="REGEX",
        help="How timelines name their actions: a regular expression with the group (?P<op>…), which is F, B, I or W, "
        "or forward or backward, and if names have them the groups microbatch, chunk, stage and rank.",
    )
    json_file: Path | None = field(default=None, metadata=options.JSON_FILE)
    overwrite: bool = field(default=False, metadata=options.OVERWRITES)


@click.command()
@click.argument("files", metavar="FILE…", nargs=-1, required=True)
@options_as("request", ReportOptions)
def report(files: tuple[str, ...], request: ReportOptions) -> int:
    """Show plans and measured steps beside each other on one page for the browser.

    Each FILE is a plan file (--json of evenflow plan, evenflow auto, evenflow tune or evenflow simulate), the timeline
    of a run (--timeline of evenflow run), or a report, whose timelines are shown again; or a step that was
    measured elsewhere: the folder that Primus dumped, a folder with a profiler's timeline of every rank, or a JSON file
    of your own. How the actions of a timeline were told is said; where nothing tells them, or several readings are
    possible, say with --actions how it names them. The first is what the others are compared with, and the prediction
    minus a measured step is printed by stage. The page is one file that loads nothing from anywhere,
    and carries its plans: evenflow reads it where it reads a plan file, as report.html or, for the second plan,
    report.html#2.

    \b
    Examples:
      evenflow report plan.json
      evenflow report plan.json other.json timeline.json -o report.html
      evenflow report plan.json traces/ -o report.html
      evenflow report traces/ --actions "stage(?P<stage>[0-9]+) (?P<op>fwd|bwd) mb(?P<microbatch>[0-9]+)"
    """
    naming = None if request.actions is None else naming_of_pattern(request.actions)
    outputs = Outputs(
        {PAGE: request.output, JSON: request.json_file},
        inputs={_("the input file {file}", file=file): Path(file) for file in files if file != STANDARD_INPUT},
        overwrite=request.overwrite,
    )
    shown: list[Shown] = []
    has_timelines = False
    for file in files:
        measured = None if file == STANDARD_INPUT else read_step(Path(file), naming)
        has_timelines |= measured is not None
        if measured is not None:
            shown.append(shown_measured(measured, name=Path(file).resolve().name.split(".")[0]))
            continue
        one_plan = numbered(file)[0] != file
        text, place = read_text(file) if one_plan else read_whole(file)
        shown += shown_of_text(text, place=place, name="stdin" if file == STANDARD_INPUT else Path(file).stem)
    if naming is not None and not has_timelines:
        raise pattern_without_timelines(request.actions)
    shown = with_own_names(shown)
    title = ", ".join(timeline.name for timeline in shown)
    outputs.write_json(lambda: report_fields(shown))
    outputs.write(PAGE, lambda: report_html(decided(shown), title=title, made_by=MADE_BY))
    lines = [f"{timeline.name}: {timeline.figures[0][1]}" for timeline in shown]
    outputs.say("\n\n".join(filter(None, ["\n".join(lines), measured_text(shown)])))
    return 0
