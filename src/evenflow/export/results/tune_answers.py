"""JSON of the answers after a ranking of degrees."""

from evenflow.language import english
from evenflow.tune.answers.explain import Difference, difference
from evenflow.tune.answers.infeasible import Needed
from evenflow.tune.answers.neighbours import Neighbour
from evenflow.tune.answers.standing import Standing
from evenflow.tune.answers.two_level import TwoLevel, TwoLevelStep
from evenflow.tune.answers.vendor import PublishedStanding
from evenflow.tune.axes import Axis, value_of
from evenflow.tune.candidate import Candidate
from evenflow.units import megabytes, milliseconds

_STATED = (Axis.TENSOR, Axis.CONTEXT, Axis.EXPERT, Axis.PIPELINE, Axis.CHUNKS, Axis.DATA, Axis.MICROBATCH)
"""What a published recipe states."""


def difference_fields(difference: Difference) -> dict[str, object]:
    """Return how another configuration differs from a first, part by part."""
    return {
        "changed": {str(change.axis): [change.first, change.other] for change in difference.changes},
        "more_ms": difference.more_ns / 1e6,
        "more_share": difference.share,
        "parts": [
            {
                "name": str(part.name),
                "first_ms": part.first_ns / 1e6,
                "other_ms": part.other_ns / 1e6,
                "follows_from": None if part.cause is None else str(part.cause.axis),
            }
            for part in difference.parts
            if part.first_ns or part.other_ns
        ],
        "first_peak_mb": megabytes(difference.first_bytes),
        "other_peak_mb": megabytes(difference.other_bytes),
    }


def standing_fields(first: Candidate | None, yours: Standing) -> dict[str, object]:
    """Return where the user's own training ranks, and how it differs from the first row."""
    candidate, improved = yours.candidate, yours.improved
    assert candidate.found is not None
    return {
        "rank": yours.rank,
        "last_rank": yours.last_rank,
        "of": yours.of,
        "values": _values(candidate),
        "layers": candidate.found.plan.layers,
        "recompute": candidate.found.plan.recompute,
        "step_ms": candidate.step_ns / 1e6,
        "peak_mb": megabytes(max(candidate.found.rank_bytes)),
        "fits": yours.fits,
        "outside": None if yours.outside is None else english(yours.outside.sentence),
        "improved_step_ms": None if improved is None else improved.step_ns / 1e6,
        **({} if first is None else {"explained": difference_fields(difference(first, candidate))}),
    }


def published_fields(first: Candidate | None, standing: PublishedStanding) -> dict[str, object]:
    """Return a published recipe, with the best plan known of its degrees."""
    recipe, candidate, training = standing.recipe, standing.candidate, standing.training
    return {
        "vendor": recipe.vendor,
        "model": recipe.model,
        "source": recipe.source,
        "values": {str(axis): value_of(training, axis) for axis in _STATED},
        "step_ms": None if candidate is None else candidate.step_ns / 1e6,
        "more_share": None if candidate is None or first is None else candidate.step_ns / first.step_ns - 1,
        "outside": None if standing.outside is None else english(standing.outside.sentence),
    }


def neighbour_fields(chosen: Candidate, neighbour: Neighbour) -> dict[str, object]:
    """Return a configuration one step away from a chosen one, with its price or the reason why it cannot be."""
    candidate = neighbour.candidate
    fields: dict[str, object] = {
        "axis": str(neighbour.axis),
        "now": value_of(chosen.training, neighbour.axis),
        "then": neighbour.value,
        "step_ms": None,
    }
    if neighbour.refusal is not None:
        return {**fields, "rule": english(neighbour.refusal.rule), "of": str(neighbour.refusal.place)}
    if neighbour.missing_bytes is not None:
        return {**fields, "missing_mb": megabytes(neighbour.missing_bytes)}
    if candidate is None or candidate.found is None:
        return fields
    return {
        **fields,
        "step_ms": candidate.step_ns / 1e6,
        "more_share": candidate.step_ns / chosen.step_ns - 1,
        "peak_mb": megabytes(max(candidate.found.rank_bytes)),
        "values": _values(candidate),
    }


def two_level_fields(two_level: TwoLevel) -> dict[str, object]:
    """Return what free shardings could gain over the degrees of a row, or the reason why that is not known."""
    bound_ns = two_level.lower_bound_ns
    return {
        "rank": two_level.row or None,
        "could_gain": two_level.gain,
        "could_gain_at_most": two_level.most_gain,
        "step_lower_bound_ms": milliseconds(bound_ns) if bound_ns else None,
        "degrees": None if two_level.degrees is None else _two_level_step(two_level.degrees),
        "best_degrees": None if two_level.best_degrees is None else _two_level_step(two_level.best_degrees),
        "free": None if two_level.free is None else _two_level_step(two_level.free),
        "reason": english(two_level.reason) or None,
    }


def _two_level_step(step: TwoLevelStep) -> dict[str, object]:
    return {
        "step_ms": milliseconds(step.step_ns),
        "microbatch": step.microbatch,
        "microbatches": step.num_microbatches,
        "schedule": step.schedule,
        "peak_mb": megabytes(step.peak_bytes),
        "plan": english(step.description),
    }


def needed_fields(needed: Needed) -> dict[str, object]:
    """Return the memory and the devices that would be enough where nothing fits."""
    memory = needed.memory_bytes
    return {
        "memory_mb": None if memory is None else megabytes(memory),
        "memory_at_least_mb": megabytes(needed.bytes_at_least) or None,
        "devices": needed.devices,
        "had_time": needed.had_time,
    }


def solved_fields(candidate: Candidate) -> dict[str, object]:
    """Return a configuration with its step and memory."""
    assert candidate.found is not None
    return {
        "values": _values(candidate),
        "layers": candidate.found.plan.layers,
        "recompute": candidate.found.plan.recompute,
        "step_ms": candidate.step_ns / 1e6,
        "peak_mb": megabytes(max(candidate.found.rank_bytes)),
    }


def _values(candidate: Candidate) -> dict[str, object]:
    return {str(axis): value_of(candidate.training, axis) for axis in Axis}
