"""Logs of the ranks of one run as a measured run, and which of the peaks in them is its peak memory."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from evenflow.errors import InputError
from evenflow.language import _, _n, english
from evenflow.profiles.measured.logs.degrees import with_sizes
from evenflow.profiles.measured.logs.log_file import LogFile
from evenflow.profiles.measured.logs.log_format import PeakOf
from evenflow.profiles.measured.logs.megatron_fields import megatron_fields
from evenflow.profiles.measured.logs.stated import Stated
from evenflow.profiles.measured.logs.step_times import WARM_UP_STEPS, SteadyStep
from evenflow.profiles.measured.reading import LEAST_REAL, MOST_REAL
from evenflow.profiles.measured.run import MeasuredRun

_RANK = re.compile(r"(?:rank|worker)[_-]?([0-9]{1,6})(?![0-9])")


def measured_run(logs: Sequence[LogFile], *, place: Path) -> MeasuredRun:
    """Return the run whose ranks wrote these logs; `place` is the file or the folder that they are.

    Steps are those of the log with most lines of progress, memory that of the fullest rank.

    Raises:
        InputError: no lines of progress, or too few for a steady step, and no memory either.
    """
    stated = Stated()
    for log in logs:
        for name, text in log.run.stated.texts.items():
            stated.state(name, text)
    timed = [log for log in logs if log.run.steady is not None]
    best = max(timed, key=_lines, default=None)
    steady = None if best is None else best.run.steady
    kind = None if best is None else best.run.format
    fields = with_sizes((megatron_fields if kind is None else kind.fields)(stated))
    if steady is not None and steady.batch and steady.batch != fields.get("gbs"):
        fields = with_sizes({**fields, "gbs": steady.batch, "microbatches": None})
    peak = logged_peak(_peaks(logs), fields, dp_is_outside=stated.flag("use_tp_pp_dp_mapping") is True)
    if steady is None and (peak is None or not stated.texts):
        raise _no_steps(logs, place)
    notes = [] if steady is None or kind is None else [_note(steady, kind.name)]
    if peak is not None:
        notes.append(f"peak={peak[0].name.lower()}")
    if settings := fields.pop("notes", None):
        notes.append(str(settings))
    return MeasuredRun(
        id=str(place),
        source=str(place.parent),
        ref=str(place),
        **fields,  # type: ignore[arg-type]
        step_s=None if steady is None else _possible(_step_s(steady, fields)),
        tokens_s_gpu=None if steady is None else _possible(steady.tokens_s),
        tflops_gpu=None if steady is None else _possible(steady.tflops),
        mem_gib=None if peak is None else _possible(peak[1]),
        mem_rank=None if peak is None else peak[2],
        notes="; ".join(map(english, notes)),
    )


def _possible(value: float | None) -> float | None:
    """A number that a file of measured runs may have."""
    return value if value is not None and LEAST_REAL <= value <= MOST_REAL else None


def _lines(log: LogFile) -> int:
    return 0 if log.run.steady is None else log.run.steady.used


def _peaks(logs: Sequence[LogFile]) -> dict[PeakOf, dict[int | None, int]]:
    """The most of every rank; a rank that a line does not say may be in the name of the log or of its folder."""
    peaks: dict[PeakOf, dict[int | None, int]] = {}
    for log in logs:
        named = _RANK.search(log.path.name) or _RANK.search(log.path.parent.name)
        for of, by_rank in log.run.peaks.items():
            for rank, size in by_rank.items():
                whose = int(named[1]) if rank is None and named else rank
                all_ranks = peaks.setdefault(of, {})
                all_ranks[whose] = max(size, all_ranks.get(whose, 0))
    return peaks


def _step_s(steady: SteadyStep, fields: dict[str, object]) -> float | None:
    """The seconds of a step: logged, or from a rate and the size of the batch."""
    if steady.time_s is not None:
        return steady.time_s
    batch, tokens, devices = (fields.get(name) for name in ("gbs", "seq", "gpus"))
    if not isinstance(batch, int):
        return None
    if steady.samples_s is not None:
        return batch / steady.samples_s
    if steady.tokens_s is None or not isinstance(tokens, int) or not isinstance(devices, int):
        return None
    return batch * tokens / (steady.tokens_s * devices)


def _note(steady: SteadyStep, name: str) -> str:
    note = _(
        "log of {name}: median of {used} of {logged} lines, the middle half within {spread:.2%}",
        name=name,
        used=steady.used,
        logged=steady.logged,
        spread=steady.spread,
    )
    if steady.restarts:
        note = _n("{note}, after {count} restart", "{note}, after {count} restarts", note=note, count=steady.restarts)
    return note


def _no_steps(logs: Sequence[LogFile], place: Path) -> InputError:
    if any(log.run.times for log in logs):
        return InputError(
            rule=_("must log at least {least} steps: the first ones are warm-up", least=WARM_UP_STEPS + 1),
            place=str(place),
            remedy=_("train longer, or log more often"),
        )
    return InputError(
        rule=_(
            "must have lines of progress of Megatron-LM ('elapsed time per iteration'), torchtitan ('tps:'), "
            "NeMo ('train_step_timing'), MindFormers ('per_step_time') or DeepSpeed ('CurrSamplesPerSec')"
        ),
        place=str(place),
        remedy=_("give the output of the rank that logs progress, which is the last one in Megatron-LM"),
    )


def logged_peak(
    peaks: Mapping[PeakOf, Mapping[int | None, int]], fields: Mapping[str, object], *, dp_is_outside: bool
) -> tuple[PeakOf, float, str] | None:
    """Return what the peak is of, its GiB, and whose it is: ``max`` of all pipeline ranks, or of the ``last``.

    `peaks` has the bytes of every rank of the job that logged any, `fields` the degrees of the run. The pipeline is the
    outermost group of ranks, unless data parallelism is outside of it. None where neither all pipeline ranks nor the
    last one logged a peak.
    """
    if not peaks:
        return None
    of = min(peaks)
    by_rank = peaks[of]
    stages = _size(fields, "pp")
    if stages == 1:
        return of, max(by_rank.values()) / 2**30, "max"
    devices = _size(fields, "gpus")
    inside = _size(fields, "tp") * _size(fields, "cp") if dp_is_outside else max(1, devices // stages)
    by_stage: dict[int, int] = {}
    for rank, size in by_rank.items():
        if rank is not None and rank < devices:
            stage = rank // inside % stages
            by_stage[stage] = max(size, by_stage.get(stage, 0))
    if len(by_stage) == stages:
        return of, max(by_stage.values()) / 2**30, "max"
    return (of, by_stage[stages - 1] / 2**30, "last") if stages - 1 in by_stage else None


def _size(fields: Mapping[str, object], name: str) -> int:
    value = fields.get(name)
    return value if isinstance(value, int) else 1
