"""A ranking of degrees as text, for terminals of 80 to 120 columns."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

from evenflow.cli.text.chance_text import chance_words
from evenflow.cli.text.display_width import text_width, wrapped
from evenflow.cli.text.extrapolation_text import extrapolation_text
from evenflow.cli.text.tables import aligned
from evenflow.cli.text.tune.proof_text import DOUBT, TIE, legend, proof, space
from evenflow.export.results.tune_fields import TuneSetting
from evenflow.language import _, _n, joined
from evenflow.predict.memory import fit_probability, fullest
from evenflow.predict.parameters import model_parameters
from evenflow.predict.prediction import Prediction
from evenflow.predict.training import Training
from evenflow.tune.binding import Binding
from evenflow.tune.candidate import Candidate
from evenflow.tune.error import contenders, tied
from evenflow.tune.preference import doubts_of
from evenflow.tune.question import TuningQuestion
from evenflow.tune.tuned import Tuned
from evenflow.tune.wording import recompute_words

_GIGABYTE = 2**30


def tune_text(tuned: Tuned, setting: TuneSetting, *, plan_file: str | None, yours: Candidate | None = None) -> str:
    """Return headline, ranking, notes on ties, the proof, the space that was searched, and what to run next.

    `plan_file` is the JSON file that was written; None without one. `yours` is what the user runs, a row of the table.
    """
    paragraphs = [
        _head(tuned.question),
        _table(tuned, setting.rows, yours),
        "\n".join(legend(tuned, setting.rows)),
        "\n".join(proof(tuned)),
        "\n".join(space(tuned.question)),
        _next(setting, plan_file),
        "\n".join(_notes(tuned, setting)),
    ]
    return "\n\n".join(filter(None, paragraphs))


def nothing_text(tuned: Tuned) -> str:
    """Return why there is no ranking, how many configurations each rule excludes, and the space that was searched."""
    paragraphs = [_head(tuned.question), "\n".join(proof(tuned)), "\n".join(space(tuned.question))]
    if isfinite(tuned.lower_bound_ns):
        paragraphs.append(_("--time-limit allows more seconds; --fix and --max-… leave fewer configurations"))
    return "\n\n".join(paragraphs)


def _head(question: TuningQuestion) -> str:
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
    numbers = {id(candidate): str(number) for number, candidate in enumerate(rows, 1)} | {id(yours): _("yours")}

    def degree(title: str, value: Callable[[Training], int], *, can_be_hidden: bool = True) -> _Column:
        return _Column(
            title,
            lambda candidate, _prediction: str(value(candidate.training)),
            shown_for=(lambda training: value(training) > 1) if can_be_hidden else None,
        )

    def peak(prediction: Prediction) -> int:
        return prediction.memory[fullest(prediction.memory)].total_bytes

    return [
        _Column(
            "#",
            lambda candidate, _prediction: (
                numbers[id(candidate)] + (TIE if candidate in same else "") + (DOUBT if doubts_of(candidate) else "")
            ),
            is_left=True,
        ),
        degree("TP", lambda training: training.degrees.tensor, can_be_hidden=False),
        degree("CP", lambda training: training.degrees.context),
        degree("EP", lambda training: training.degrees.expert),
        degree("ETP", lambda training: (training.degrees.expert_tensor or 1) if training.model.experts else 1),
        _Column("PP", lambda candidate, _prediction: _pipeline(candidate.training)),
        degree("DP", lambda training: training.degrees.data, can_be_hidden=False),
        degree("MBS", lambda training: training.microbatch, can_be_hidden=False),
        _Column(_("schedule"), lambda candidate, prediction: prediction.simulation.plan.schedule, is_left=True),
        _Column("ZeRO", lambda candidate, _prediction: candidate.training.degrees.sharding.value),
        _Column(
            _("host%"),
            lambda candidate, _prediction: f"{100 * candidate.training.degrees.optimizer_offload:g}",
            shown_for=lambda training: training.degrees.optimizer_offload > 0,
        ),
        _Column(
            _("recompute"), lambda _candidate, prediction: recompute_words(prediction.simulation.plan), is_left=True
        ),
        _Column(_("step ms"), lambda candidate, _prediction: f"{candidate.step_ns / 1e6:,.1f}"),
        _Column("±%", lambda _candidate, prediction: f"{100 * _half_width(prediction):.0f}", can_go=3),
        _Column(_("tokens/s"), lambda _candidate, prediction: f"{prediction.tokens_per_device_s:,.1f}", can_go=6),
        _Column("MFU%", lambda _candidate, prediction: f"{100 * prediction.utilisation:.1f}", can_go=5),
        _Column(_("peak"), lambda _candidate, prediction: f"{peak(prediction) / _GIGABYTE:.1f}", can_go=1),
        _Column(_("free"), lambda _candidate, prediction: f"{(limit - peak(prediction)) / _GIGABYTE:.1f}", can_go=2),
        _Column(_("fits%"), _chance, can_go=1),
        _Column(_("largest loss"), lambda candidate, _prediction: _limit(candidate), is_left=True, can_go=4),
    ]


def _table(tuned: Tuned, most: int, yours: Candidate | None) -> str:
    """Return the ranking in as many columns as there is room for."""
    columns, rows = _whole_table(tuned, most, yours)
    able = [number for number, column in enumerate(columns) if column.can_go]
    return aligned(
        [column.title for column in columns],
        _cells(columns, rows),
        left={number for number, column in enumerate(columns) if column.is_left},
        leaving=sorted(able, key=lambda number: -columns[number].can_go),
        most=text_width(),
    )


def ranking_table(tuned: Tuned, most: int, yours: Candidate | None) -> tuple[list[str], list[list[str]]]:
    """Return titles and cells of the whole ranking, however wide."""
    columns, rows = _whole_table(tuned, most, yours)
    return [column.title for column in columns], _cells(columns, rows)


def _whole_table(tuned: Tuned, most: int, yours: Candidate | None) -> tuple[list[_Column], list[Candidate]]:
    """Return the columns that have something to show, and the rows by step time."""
    known = list(contenders(tuned.ranked, most))
    rows = known if yours is None else sorted([*known, yours], key=lambda candidate: candidate.step_ns)
    columns = [
        column
        for column in _columns(tuned, known, yours)
        if column.shown_for is None or any(column.shown_for(candidate.training) for candidate in rows)
    ]
    return columns, rows


def _cells(columns: Sequence[_Column], rows: Sequence[Candidate]) -> list[list[str]]:
    return [
        [column.cell(candidate, candidate.prediction) for column in columns]
        for candidate in rows
        if candidate.prediction is not None
    ]


def _pipeline(training: Training) -> str:
    degrees = training.degrees
    return f"{degrees.pipeline} x {degrees.chunks}" if degrees.chunks > 1 else str(degrees.pipeline)


def _limit(candidate: Candidate) -> str:
    """Return what limits a step, and its share of the step."""
    limited = candidate.limited
    if limited is None:
        return ""
    name = {
        Binding.COMPUTE: _("compute"),
        Binding.MEMORY: _("memory"),
        Binding.BUBBLE: _("bubble"),
        Binding.TENSOR: _("TP traffic"),
        Binding.CONTEXT: _("CP traffic"),
        Binding.EXPERT: _("EP traffic"),
        Binding.DATA: _("DP traffic"),
        Binding.PIPELINE: _("PP traffic"),
    }[limited.by]
    return name if limited.by is Binding.COMPUTE else f"{name} {100 * limited.time_ns / candidate.step_ns:.0f} %"


def _chance(candidate: Candidate, prediction: Prediction) -> str:
    """Return the probability that a row fits."""
    probability = fit_probability(prediction.memory, candidate.pricing.question.memory_limit_bytes)
    return chance_words(probability)


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


def _notes(tuned: Tuned, setting: TuneSetting) -> Iterator[str]:
    if setting.notes:
        yield from wrapped(_("of the model: {notes}", notes=joined(setting.notes)), text_width())
    if setting.assumed:
        yield from wrapped(_("assumed: {options}", options=", ".join(setting.assumed)), text_width())
    beyond = extrapolation_text(tuned.first_training, tuned.question.topology)
    if beyond:
        yield from wrapped(beyond, text_width())
