"""A prediction as text, for terminals of 80 columns."""

import math
from collections.abc import Iterator

from evenflow.cli.text.chance_text import chance_words
from evenflow.cli.text.display_width import wrapped
from evenflow.cli.text.extrapolation_text import extrapolation_text
from evenflow.cli.text.tables import aligned
from evenflow.export.results.prediction_fields import PredictionSetting
from evenflow.language import _, joined
from evenflow.predict.expected_error import ALL, CALIBRATED
from evenflow.predict.memory import Held, RankMemory, fit_probability, fullest
from evenflow.predict.parameters import model_parameters
from evenflow.predict.prediction import BUBBLE, OPTIMIZER, STEP, PartTime, Prediction
from evenflow.predict.training import FORMATS, Training
from evenflow.tune.wording import split_words
from evenflow.units import GIGABYTE, milliseconds

_WIDTH = 80
_MOST_RANKS = 16
"""Pipelines of more ranks have a row for the first, the fullest and the last."""


def predict_text(prediction: Prediction, setting: PredictionSetting) -> str:
    """Return headline, step time, time by part, memory by rank and part, what to run next, and notes."""
    paragraphs = [
        "\n".join(_head(prediction)),
        "\n".join(_step(prediction)),
        _time_table(prediction),
        _memory_table(prediction, setting.memory_limit_bytes),
        "\n".join(_limit(prediction, setting.memory_limit_bytes)),
        "\n".join(_change(prediction, setting)),
        _next(prediction, setting),
        "\n".join(_notes(prediction, setting)),
    ]
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def _head(prediction: Prediction) -> Iterator[str]:
    training, device = prediction.training, prediction.topology.accelerator
    yield _(
        "{name}: {layers} layers, {parameters:,.1f} billion parameters, {precision} on {devices:,} x {device}",
        name=training.model.name,
        layers=training.model.layers,
        parameters=model_parameters(training.model) / 1e9,
        precision=training.precision,
        devices=training.degrees.devices,
        device=device.name,
    )
    yield split_words(training)
    yield _(
        "{microbatches:,} microbatches of {microbatch} x {sequence:,} tokens, {schedule}, recompute {recompute}",
        microbatches=training.microbatches,
        microbatch=training.microbatch,
        sequence=training.sequence,
        schedule=prediction.simulation.plan.schedule,
        recompute=_recompute(training),
    )


def _recompute(training: Training) -> str:
    if training.recompute == "select":
        return "+".join(training.recompute_modules)
    return training.recompute


def _step(prediction: Prediction) -> Iterator[str]:
    dtype = FORMATS[prediction.training.precision]
    low, high = prediction.interval_ns
    yield _(
        "step {step_ms:,.1f} ms, four of five from {low_ms:,.0f} to {high_ms:,.0f} ms",
        step_ms=prediction.step_ns / 1e6,
        low_ms=low / 1e6,
        high_ms=high / 1e6,
    )
    yield _("{tokens:,.1f} tokens/s per device", tokens=prediction.tokens_per_device_s)
    yield _(
        "{tflops:,.1f} model TFLOP/s per device, {share:.1f} % of the peak of {peak:,.1f} ({dtype})",
        tflops=prediction.model_flops_per_device_s / 1e12,
        share=100 * prediction.utilisation,
        peak=prediction.topology.accelerator.rate(dtype) / 1e12,
        dtype=dtype,
    )


def _time_table(prediction: Prediction) -> str:
    """Return the time of each part that takes some; exposed times add up to the step."""
    parts = [part for part in prediction.parts if part.exposed_ns or part.hidden_ns]
    recomputes = any(part.recomputed_ns for part in parts)

    def row(part: PartTime) -> list[str]:
        again = [_ms(part.recomputed_ns)] if recomputes else []
        share = _percent(part.exposed_ns / prediction.step_ns)
        return [part_name(part.name), _ms(part.exposed_ns), share, *again, _ms(part.hidden_ns)]

    whole = [_("step"), _ms(prediction.step_ns), _percent(1.0), *([""] if recomputes else []), ""]
    again = [_("again ms")] if recomputes else []
    idle_ns, rank = prediction.idle_ns, prediction.busiest_rank
    time = _("time") if len(idle_ns) == 1 else _("time of rank {rank}", rank=rank)
    header = [time, _("exposed ms"), _("share"), *again, _("hidden ms")]
    return "\n".join([aligned(header, [*map(row, parts), whole], left={0}), *_idle(prediction)])


def _idle(prediction: Prediction) -> Iterator[str]:
    """Yield how long ranks wait, where there are several."""
    shares = [idle_ns / prediction.step_ns for idle_ns in prediction.idle_ns]
    if len(shares) > 1:
        most = max(shares)
        yield _(
            "ranks wait {mean} of the step on average: {least} on rank {busiest}, {most} on rank {idlest}",
            mean=_percent(sum(shares) / len(shares)),
            least=_percent(min(shares)),
            busiest=prediction.busiest_rank,
            most=_percent(most),
            idlest=shares.index(most),
        )


def part_name(name: str) -> str:
    """Return what time is spent on, in the language spoken."""
    return {
        "matrix products": _("matrix products"),
        "attention": _("attention"),
        "other operators": _("other operators"),
        "tensor-parallel communication": _("tensor-parallel communication"),
        "context-parallel communication": _("context-parallel communication"),
        "expert-parallel communication": _("expert-parallel communication"),
        "data-parallel communication": _("data-parallel communication"),
        "pipeline communication": _("pipeline communication"),
        BUBBLE: _("bubble"),
        OPTIMIZER: _("optimizer"),
        STEP: _("constant of the step"),
    }.get(name, name)


def _memory_table(prediction: Prediction, limit_bytes: int) -> str:
    """Return a row for each rank, a column for each part that some rank has; GB of 2^30 bytes."""
    memory, titles = prediction.memory, _held()
    parts = [held for held in titles if any(_in_column(rank_memory, held) for rank_memory in memory)]
    header = [_("rank"), *(titles[held] for held in parts), _("all"), *([_("full%")] if limit_bytes else [])]
    rows = []
    for rank in _shown_ranks(memory):
        rank_memory = memory[rank]
        row = [str(rank), *(_gb(_in_column(rank_memory, held)) for held in parts), _gb(rank_memory.total_bytes)]
        rows.append([*row, *([f"{100 * rank_memory.total_bytes / limit_bytes:.1f}"] if limit_bytes else [])])
    title = _("memory in GB at its fullest moment")
    return f"{title}\n{aligned(header, rows)}"


def _in_column(memory: RankMemory, held: Held) -> int:
    """Return the bytes of a column: those of the reserve with what driver and communicators take."""
    beside = memory.parts.get(Held.DRIVER, 0) if held is Held.RESERVE else 0
    return memory.parts.get(held, 0) + beside


def _held() -> dict[Held, str]:
    """Return a short word for what memory is held for: ten columns and their numbers fit on a line."""
    return {
        Held.PARAMETERS: _("param"),
        Held.GRADIENTS: _("grad"),
        Held.OPTIMIZER: _("opt"),
        Held.NORMS: _("norm"),
        Held.ATTENTION: _("attn"),
        Held.MLP: _("MLP"),
        Held.EXPERTS: _("exp"),
        Held.LOGITS: _("loss"),
        Held.BUFFERS: _("buf"),
        Held.RESERVE: _("resv"),
    }


def _shown_ranks(memory: tuple[RankMemory, ...]) -> list[int]:
    if len(memory) <= _MOST_RANKS:
        return list(range(len(memory)))
    return sorted({0, fullest(memory), len(memory) - 1})


def _limit(prediction: Prediction, limit_bytes: int) -> Iterator[str]:
    memory = prediction.memory
    rank = fullest(memory)
    peak = memory[rank].total_bytes
    if len(memory) > _MOST_RANKS:
        yield _("the first, the fullest and the last of {ranks} ranks; --json has them all", ranks=len(memory))
    if not limit_bytes:
        yield _("memory: {peak} GB on rank {rank}; no limit is known (--memory)", peak=_gb(peak), rank=rank)
    elif peak <= limit_bytes:
        yield _(
            "memory: {peak} of {limit} GB on rank {rank}, {free} GB are free",
            peak=_gb(peak),
            limit=_gb(limit_bytes),
            rank=rank,
            free=_gb(limit_bytes - peak),
        )
        yield _chance(memory, limit_bytes)
    else:
        yield _(
            "memory: {peak} GB on rank {rank}, {over} GB over the limit of {limit} GB",
            peak=_gb(peak),
            rank=rank,
            over=f"{math.ceil(10 * (peak - limit_bytes) / GIGABYTE) / 10:.1f}",  # never 0.0
            limit=_gb(limit_bytes),
        )
        yield _chance(memory, limit_bytes)
    if any(prediction.host_bytes):
        most = max(prediction.host_bytes)
        yield _(
            "the host keeps up to {most} GB for a device (rank {rank}): {share:g} % of the optimizer's state, and its "
            "gradients",
            most=_gb(most),
            rank=prediction.host_bytes.index(most),
            share=100 * prediction.training.degrees.optimizer_offload,
        )


def _chance(memory: tuple[RankMemory, ...], limit_bytes: int) -> str:
    return _(
        "it fits with a probability of {percent} %, by published readings of memory",
        percent=chance_words(fit_probability(memory, limit_bytes)),
    )


def _change(prediction: Prediction, setting: PredictionSetting) -> Iterator[str]:
    """Say what fits where the limit is exceeded."""
    limit, change = setting.memory_limit_bytes, setting.change
    if not limit or prediction.memory[fullest(prediction.memory)].total_bytes <= limit:
        return
    if change is None:
        yield from wrapped(_("no change of one or two settings fits on as many devices: use more devices"), _WIDTH)
        return
    options = ", ".join(setting.changed_options)
    yield from wrapped(_("the smallest change that fits: {options}", options=options), _WIDTH)
    yield _(
        "with it a step of {step_ms:,.1f} ms ({longer:+.1f} %) and {peak} GB on the fullest rank",
        step_ms=change.step_ns / 1e6,
        longer=100 * (change.step_ns / prediction.step_ns - 1),
        peak=_gb(change.memory_bytes),
    )


def _next(prediction: Prediction, setting: PredictionSetting) -> str:
    following = setting.next_plan
    if following is None:
        return ""
    pipeline_ns = prediction.simulation.makespan_ns
    sentence = _(
        "of the step, the pipeline takes {pipeline_ms:,.1f} ms; to plan a shorter one from the layer file:",
        pipeline_ms=milliseconds(pipeline_ns),
    )
    if following.pipeline_ns != pipeline_ns:
        sentence = _(
            "of the step, the pipeline takes {pipeline_ms:,.1f} ms ({there_ms:,.1f} ms with all links alike, as the "
            "planner has them); to plan a shorter one from the layer file:",
            pipeline_ms=milliseconds(pipeline_ns),
            there_ms=milliseconds(following.pipeline_ns),
        )
    return "\n".join([*wrapped(sentence, _WIDTH), following.command])


def _notes(prediction: Prediction, setting: PredictionSetting) -> Iterator[str]:
    if setting.notes:
        yield from wrapped(_("of the model: {notes}", notes=joined(setting.notes)), _WIDTH)
    if setting.assumed:
        yield from wrapped(_("assumed: {options}", options=", ".join(setting.assumed)), _WIDTH)
    beyond = extrapolation_text(prediction.training, prediction.topology)
    if beyond:
        yield from wrapped(beyond, _WIDTH)
    yield from wrapped(_error(prediction), _WIDTH)


def _error(prediction: Prediction) -> str:
    """Return what the interval follows from."""
    error = prediction.expected_error
    if error.of == CALIBRATED:
        return _("the interval follows from the {runs} runs of the calibration", runs=error.runs)
    return _(
        "the interval follows from {runs} published runs of {sources} sources ({of}), see docs/accuracy.md",
        runs=error.runs,
        sources=error.sources,
        of=_kind_of_run(error.of),
    )


def _kind_of_run(kind: str) -> str:
    """Return what runs were compared, in the language spoken."""
    generation, _comma, models = kind.rpartition(", ")
    if kind == ALL:
        return _("all kinds")
    if not generation:
        return _("all dense models") if models == "dense" else _("all models with experts")
    return _("{name}, dense", name=generation) if models == "dense" else _("{name}, experts", name=generation)


def _ms(time_ns: float) -> str:
    return f"{time_ns / 1e6:,.1f}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _gb(size_bytes: int) -> str:
    return f"{size_bytes / GIGABYTE:.1f}"
