"""The figures behind docs/accuracy.md: what the data hold, errors of predictions, the simulator on timelines."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.fidelity import write
from benchmarks.published import report, timeline
from benchmarks.published.guesses import HALF, guess_all
from benchmarks.published.picture import scatter_svg
from benchmarks.published.predictor import Calibrate, Predictor
from benchmarks.published.ranking import ranking_groups
from benchmarks.published.scaling import scaling_table
from benchmarks.published.timeline_file import PublishedTimeline, read_timeline
from benchmarks.published.two_points import two_numbers, two_numbers_table
from benchmarks.table import aligned
from evenflow.profiles.measured.assumptions import completed
from evenflow.profiles.measured.reading import read_runs
from evenflow.profiles.measured.run import MeasuredRun

DATA = Path(__file__).with_name("data")
DOCS = Path(__file__).parents[2] / "docs"
PICTURE = DOCS / "images" / "accuracy.svg"
POINTS = (0, 1, 3, HALF)
"""How many measured runs of a source are known."""


def read_all(paths: Sequence[Path]) -> tuple[dict[str, tuple[MeasuredRun, ...]], list[PublishedTimeline]]:
    """Return the runs of CSV files by path, and the timelines of JSON files; those of `DATA` where there are no paths.

    Raises:
        InputError: a file that cannot be read or is not of its form.
    """
    paths = paths or sorted(DATA.iterdir())
    runs = {str(path): read_runs(path) for path in paths if path.suffix != ".json"}
    return runs, [read_timeline(path) for path in paths if path.suffix == ".json"]


def contents_table(files: Mapping[str, Sequence[MeasuredRun]]) -> str:
    """Return how many runs every file has, and for how many of them nothing is assumed."""
    rows = []
    for file, runs in files.items():
        of = [completed(run) for run in runs]
        gpus = [run.gpus for run in of if run.gpus]
        counts = [
            len(runs),
            sum(run.step_s is not None for run in runs),
            sum(run.mem_gib is not None for run in runs),
            sum(not run.assumed and not run.lacks for run in of),
            len(ranking_groups(of)),
        ]
        devices = f"{min(gpus):,} to {max(gpus):,}" if gpus else "-"
        rows.append([Path(file).stem, *(f"{count:,}" for count in counts), devices])
    return aligned(["published runs", "rows", "steps", "memory", "all stated", "groups", "accelerators"], rows)


def timeline_sections(timelines: Sequence[PublishedTimeline]) -> dict[str, str]:
    """Return the tables of steps and of memory of all timelines, by the name of their file."""
    steps = [f"{each.name}\n{timeline.step_table(timeline.step_errors(each))}" for each in timelines]
    memory = [f"{each.name}\n{timeline.memory_table(timeline.memory_errors(each))}" for each in timelines]
    return {"timeline-steps": "\n\n".join(steps), "timeline-memory": "\n\n".join(memory)} if timelines else {}


def score_sections(
    files: Mapping[str, Sequence[MeasuredRun]], predictor: Predictor, calibrate: Calibrate
) -> tuple[dict[str, str], str]:
    """Return the tables of scores by the name of their file, and the picture as SVG."""
    guesses = {points: guess_all(files, predictor, calibrate=calibrate, points=points) for points in POINTS}
    sections = {
        "in-short": report.summary_table(guesses),
        "step-times": report.time_table(guesses),
        "memory": report.memory_table(guesses),
        "small-memory": report.small_memory_table(guesses) or "none",
        "ranking": report.ranking_table(guesses),
        "devices": scaling_table(guesses),
        "two-numbers": two_numbers_table(two_numbers(files)) or "none",
        "assumed": report.assumption_table(guesses[0]),
        "not-predicted": report.refusals(guesses[0]) or "none",
    }
    return sections, scatter_svg(guesses[0], title="Predicted and measured steps")


def write_sections(sections: Mapping[str, str]) -> None:
    """Write tables into docs/tables, each into the file of its name."""
    for name, text in sections.items():
        write(name, text)
