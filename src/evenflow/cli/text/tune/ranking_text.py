"""A ranking of degrees as text, for terminals of 120 columns."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

from evenflow.cli.text.display_width import display_width, wrapped
from evenflow.cli.text.tables import aligned
from evenflow.cli.text.tune.proof_text import TIE, legend, proof, space
from evenflow.export.results.tune_fields import TuneSetting
from evenflow.language import _, _n, joined
from evenflow.predict.memory import fullest
from evenflow.predict.parameters import model_parameters
from evenflow.predict.prediction import Prediction
from evenflow.predict.training import Training
from evenflow.tune.binding import Binding
from evenflow.tune.candidate import Candidate
from evenflow.tune.error import tied
from evenflow.tune.question import Question
from evenflow.tune.tuned import Tuned
from evenflow.tune.wording import recompute_words

WIDTH = 120
_GIGABYTE = 2**30


def tune_text(tuned: Tuned, setting: TuneSetting, *, plan_file: str | None, yours: Candidate | None = None) -> str:
    """Return headline, ranking, what cannot be told apart, the proof, the space, and what to run next.

    `plan_file` is the JSON file that was written; None without one. `yours` is what the user runs, a row of the table.
    """
    paragraphs = [
        _head(tuned.question),
        _table(tuned, setting.rows, yours),
        "\n".join(legend(tuned, setting.rows)),
        "\n".join(proof(tuned)),
        "\n".join(space(tuned.question)),
        _next(setting, plan_file),
        "\n".join(_notes(setting)),
    ]
    return "\n\n".join(filter(None, paragraphs))


def nothing_text(tuned: Tuned) -> str:
    """Return why there is no ranking, on how many configurations each rule stands in the way, and the space."""
    paragraphs = [_head(tuned.question), "\n".join(proof(tuned)), "\n".join(space(tuned.question))]
    if isfinite(tuned.lower_bound_ns):
        paragraphs.append(_("--time-limit allows more seconds; --fix and --max-… leave fewer configurations"))
    return "\n\n".join(paragraphs)


def _head(question: Question) -> str:
    return _(
        "{name}: {layers}, {parameters:,.1f} billion parameters, {precision} on {devices:,} x {device}"
        "{framework}\n{batch} of {sequence:,} tokens a step, {memory:.1f} GB of memory on a device",
        name=question.model.name,
        layers=_n("1 layer", "{count} layers", count=question.model.layers),
        parameters=model_parameters(question.model) / 1e9,
        precision=question.precision,
        devices=question.devices,
        device=question.topology.accelerator.name,
        framework=_(", for {title}", title=question.title) if question.title else "",
        batch=_n("1 sequence", "{count:,} sequences", count=question.global_batch),
        sequence=question.sequence,
        memory=question.memory_limit_bytes / _GIGABYTE,
    )


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    cell: Callable[[Candidate, Prediction], str]
    is_left: bool = False
    shown_for: Callable[[Training], bool] | None = None
    """The column is there if some row has this; None: always."""
    can_go: int = 0
    """Columns of the largest number go first where a table is too wide; 0: never."""


def _columns(tuned: Tuned, rows: Sequence[Candidate], yours: Candidate | None) -> list[_Column]:
    same, limit = set(tied(tuned.ranked)), tuned.question.memory_limit_bytes
    numbers = {id(one): str(number) for number, one in enumerate(rows, 1)} | {id(yours): _("yours")}

    def degree(title: str, value: Callable[[Training], int], *, can_be_hidden: bool = True) -> _Column:
        return _Column(
            title,
            lambda one, _found: str(value(one.training)),
            shown_for=(lambda training: value(training) > 1) if can_be_hidden else None,
        )

    def peak(found: Prediction) -> int:
        return found.memory[fullest(found.memory)].total_bytes

    return [
        _Column("#", lambda one, _found: numbers[id(one)] + (TIE if one in same else ""), is_left=True),
        degree("TP", lambda training: training.degrees.tensor, can_be_hidden=False),
        degree("CP", lambda training: training.degrees.context),
        degree("EP", lambda training: training.degrees.expert),
        degree("ETP", lambda training: (training.degrees.expert_tensor or 1) if training.model.experts else 1),
        _Column("PP", lambda one, _found: _pipeline(one.training)),
        degree("DP", lambda training: training.degrees.data, can_be_hidden=False),
        degree("MBS", lambda training: training.microbatch, can_be_hidden=False),
        _Column(_("schedule"), lambda one, found: found.simulation.plan.schedule, is_left=True),
        _Column("ZeRO", lambda one, _found: one.training.degrees.sharding.value),
        _Column(_("recompute"), lambda _one, found: recompute_words(found.simulation.plan), is_left=True),
        _Column(_("step ms"), lambda one, _found: f"{one.step_ns / 1e6:,.1f}"),
        _Column("±%", lambda _one, found: f"{100 * _half_width(found):.0f}"),
        _Column(_("tokens/s"), lambda _one, found: f"{found.tokens_per_device_s:,.1f}", can_go=3),
        _Column("MFU%", lambda _one, found: f"{100 * found.utilisation:.1f}", can_go=2),
        _Column(_("peak"), lambda _one, found: f"{peak(found) / _GIGABYTE:.1f}"),
        _Column(_("free"), lambda _one, found: f"{(limit - peak(found)) / _GIGABYTE:.1f}"),
        _Column(_("limited by"), lambda one, _found: _limit(one), is_left=True, can_go=1),
    ]


def _table(tuned: Tuned, most: int, yours: Candidate | None) -> str:
    """Return the ranking in at most `WIDTH` columns where that can be."""
    columns, rows = _whole_table(tuned, most, yours)
    while True:
        cells = _cells(columns, rows)
        left = {number for number, column in enumerate(columns) if column.is_left}
        table = aligned([column.title for column in columns], cells, left=left)
        last = max(columns, key=lambda column: column.can_go)
        if not last.can_go or max(map(display_width, table.splitlines())) <= WIDTH:
            return table
        columns.remove(last)


def ranking_table(tuned: Tuned, most: int, yours: Candidate | None) -> tuple[list[str], list[list[str]]]:
    """Return titles and cells of the whole ranking, however wide."""
    columns, rows = _whole_table(tuned, most, yours)
    return [column.title for column in columns], _cells(columns, rows)


def _whole_table(tuned: Tuned, most: int, yours: Candidate | None) -> tuple[list[_Column], list[Candidate]]:
    """Return the columns that say something, and the rows in the order of their steps."""
    known = list(tuned.ranked[:most])
    rows = known if yours is None else sorted([*known, yours], key=lambda one: one.step_ns)
    columns = [
        column
        for column in _columns(tuned, known, yours)
        if column.shown_for is None or any(column.shown_for(one.training) for one in rows)
    ]
    return columns, rows


def _cells(columns: Sequence[_Column], rows: Sequence[Candidate]) -> list[list[str]]:
    return [[column.cell(one, one.prediction) for column in columns] for one in rows if one.prediction is not None]


def _pipeline(training: Training) -> str:
    degrees = training.degrees
    return f"{degrees.pipeline} x {degrees.chunks}" if degrees.chunks > 1 else str(degrees.pipeline)


def _limit(one: Candidate) -> str:
    """Return what limits a step, and its share of the step."""
    found = one.limited
    if found is None:
        return ""
    words = {
        Binding.COMPUTE: _("compute"),
        Binding.MEMORY: _("memory"),
        Binding.BUBBLE: _("bubble"),
        Binding.TENSOR: _("TP traffic"),
        Binding.CONTEXT: _("CP traffic"),
        Binding.EXPERT: _("EP traffic"),
        Binding.DATA: _("DP traffic"),
        Binding.PIPELINE: _("PP traffic"),
    }[found.by]
    return words if found.by is Binding.COMPUTE else f"{words} {100 * found.time_ns / one.step_ns:.0f} %"


def _half_width(prediction: Prediction) -> float:
    low, high = prediction.interval_ns
    return (high - low) / 2 / prediction.step_ns


def _next(setting: TuneSetting, plan_file: str | None) -> str:
    if not setting.target:
        for_framework = _(
            "with --target NAME all rows can be run by your framework, and `evenflow export` writes its files"
        )
        if plan_file is None:
            return "\n".join(
                [_("to go on with the first: add --json tune.json, then\nevenflow plan tune.json"), for_framework]
            )
        return "\n".join([_("to go on with the first:\nevenflow plan {file}", file=plan_file), for_framework])
    if plan_file is None:
        return _(
            "to go on with the first: add --json tune.json, then\nevenflow export tune.json --to {target}",
            target=setting.target,
        )
    return _(
        "to go on with the first:\nevenflow plan {file}\nevenflow export {file} --to {target}",
        file=plan_file,
        target=setting.target,
    )


def _notes(setting: TuneSetting) -> Iterator[str]:
    if setting.notes:
        yield from wrapped(_("of the model: {notes}", notes=joined(setting.notes)), WIDTH)
    if setting.assumed:
        yield from wrapped(_("assumed: {options}", options=", ".join(setting.assumed)), WIDTH)
