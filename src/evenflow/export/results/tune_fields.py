"""JSON of a ranking of degrees, which is also the plan file of its first row."""

from collections.abc import Mapping
from dataclasses import dataclass

from evenflow.export.results.extrapolation_fields import extrapolation_fields
from evenflow.export.results.json_text import finite
from evenflow.export.results.prediction_fields import memory_fields, time_fields, training_fields
from evenflow.predict.memory import fit_probability, fullest
from evenflow.predict.parameters import model_parameters
from evenflow.profiles.plan_degrees import degrees_fields
from evenflow.profiles.plan_fields import network_fields, plan_fields
from evenflow.solve import Status
from evenflow.solve.proof import TOLERANCE
from evenflow.tune.candidate import Candidate
from evenflow.tune.error import contenders, tied
from evenflow.tune.preference import doubts_of, mechanisms
from evenflow.tune.space import most_of
from evenflow.tune.tuned import Tuned
from evenflow.units import megabytes, milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneSetting:
    """The options of a ranking beside its question."""

    rows: int
    """Rows of the table."""
    target: str = ""
    """Name of the framework; empty without one."""
    version: str = ""
    assumed: tuple[str, ...] = ()
    """Options that were not given, each with its value."""
    notes: tuple[str, ...] = ()
    """What was assumed of the model, or left out of it."""


def tune_fields(tuned: Tuned, setting: TuneSetting) -> dict[str, object]:
    """Return the plan of the first row with its degrees and network, then the ranking and what is proven."""
    best = tuned.best
    ranking = {**_question(tuned, setting), **_proof(tuned), "ranked": _rows(tuned, setting.rows)}
    if best is None or best.prediction is None:
        return {"status": _status(tuned).value, **ranking}
    return {**_plan(tuned, best), **ranking, **network_fields(best.prediction.simulation)}


def row_fields(tuned: Tuned, candidate: Candidate, setting: TuneSetting) -> dict[str, object]:
    """Return the plan file of any row that is shown, with its degrees, its question and its network."""
    assert candidate.prediction is not None
    return {**_plan(tuned, candidate), **_question(tuned, setting), **network_fields(candidate.prediction.simulation)}


def _plan(tuned: Tuned, candidate: Candidate) -> dict[str, object]:
    """Return the plan of a row, with what its stages do."""
    assert candidate.prediction is not None
    question, training = tuned.question, candidate.training
    capacity = None if question.model.experts is None else question.model.experts.capacity_factor
    status = _status(tuned) if candidate is tuned.best else candidate.status or Status.FEASIBLE
    fields = plan_fields(
        candidate.prediction.simulation,
        status=status.value,
        lower_bound_ns=None,
        memory_limit_bytes=question.usable_bytes,
    )
    return {
        **fields,
        "degrees": degrees_fields(training.degrees),
        "microbatch": training.microbatch * training.degrees.data,
        **({} if capacity is None else {"expert_capacity": capacity}),
    }


def _status(tuned: Tuned) -> Status:
    if tuned.gap is None:
        return Status.INFEASIBLE if finite(tuned.lower_bound_ns) is None else Status.TIMEOUT
    return Status.OPTIMAL if tuned.gap <= 2 * TOLERANCE else Status.FEASIBLE


def _question(tuned: Tuned, setting: TuneSetting) -> dict[str, object]:
    question = tuned.question
    return {
        "model": question.model.name,
        "parameters": model_parameters(question.model),
        "accelerator": question.topology.accelerator.name,
        "devices": question.devices,
        "devices_per_node": question.topology.domain_devices,
        "device_memory_mb": megabytes(question.memory_limit_bytes),
        "confidence": question.confidence,
        "global_batch": question.global_batch,
        "sequence": question.sequence,
        "precision": question.precision,
        "target": setting.target or None,
        "target_version": setting.version or None,
        "space": {
            "schedules": list(question.schedules),
            "fixed": {str(axis): value for axis, value in question.fixed.items()},
            "most": {str(axis): value for axis, value in most_of(question).items()},
            "recompute": question.recompute,
            "allow_empty": question.allow_empty,
        },
        "assumed": list(setting.assumed),
        "notes": list(setting.notes),
        **extrapolation_fields(tuned.first_training, question.topology),
    }


def _proof(tuned: Tuned) -> dict[str, object]:
    best = tuned.best
    step: Mapping[str, object] = {"step_ms": None, "step_interval_ms": None}
    if best is not None and best.prediction is not None:
        step = {
            "step_ms": best.step_ns / 1e6,
            "step_interval_ms": [end_ns / 1e6 for end_ns in best.prediction.interval_ns],
        }
    bound = finite(tuned.lower_bound_ns)
    return {
        **step,
        "step_lower_bound_ms": None if bound is None else bound / 1e6,
        "step_gap": tuned.gap,
        "certificate": tuned.certificate(),
        "legal": tuned.num_legal,
        "refuted": tuned.num_refuted,
        "solved": tuned.num_solved,
        "excluded": dict(tuned.excluded),
        "interrupted": tuned.interrupted,
    }


def _rows(tuned: Tuned, most: int) -> list[dict[str, object]]:
    limit = tuned.question.memory_limit_bytes
    same = set(tied(tuned.ranked))
    shown = contenders(tuned.ranked, most)
    return [_row(number, candidate, candidate in same, limit) for number, candidate in enumerate(shown, 1)]


def _row(number: int, candidate: Candidate, is_tied: bool, limit_bytes: int) -> dict[str, object]:
    prediction, plan = candidate.prediction, candidate.plan
    assert prediction is not None
    assert plan is not None
    memory = prediction.memory
    rank, limit = fullest(memory), candidate.limited
    bound = finite(candidate.lower_bound_ns)
    return {
        "rank": number,
        "tied_with_first": is_tied,
        "doubts": [doubt.value for doubt in doubts_of(candidate)],
        "mechanisms": mechanisms(candidate),
        **training_fields(candidate.training),
        "schedule": plan.schedule,
        **({} if plan.group_size is None else {"group_size": plan.group_size}),
        "layers": plan.layers,
        "recompute": plan.recompute,
        "status": None if candidate.status is None else candidate.status.value,
        "step_ms": candidate.step_ns / 1e6,
        "step_interval_ms": [end_ns / 1e6 for end_ns in prediction.interval_ns],
        "step_lower_bound_ms": None if bound is None else bound / 1e6,
        "pipeline_ms": milliseconds(prediction.simulation.makespan_ns),
        **time_fields(prediction),
        "fullest_rank": rank,
        "memory": memory_fields(memory[rank]),
        "free_mb": megabytes(limit_bytes - memory[rank].total_bytes),
        "fits_probability": fit_probability(memory, limit_bytes),
        "limited_by": None if limit is None else limit.by.value,
        "limited_ms": None if limit is None else limit.time_ns / 1e6,
    }
