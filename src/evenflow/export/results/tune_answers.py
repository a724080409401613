"""JSON of what is asked after a ranking of degrees."""

from evenflow.language import english
from evenflow.tune.answers.explain import Difference, difference
from evenflow.tune.answers.infeasible import Needed
from evenflow.tune.answers.neighbours import Neighbour
from evenflow.tune.answers.standing import Standing
from evenflow.tune.answers.two_level import TwoLevel, TwoLevelStep
from evenflow.tune.axes import Axis, value_of
from evenflow.tune.candidate import Candidate
from evenflow.units import megabytes, milliseconds


def difference_fields(difference: Difference) -> dict[str, object]:
    """Return how another configuration differs from a first, part by part."""
    return {
        "changed": {str(each.axis): [each.first, each.other] for each in difference.changes},
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
    """Return where what the user runs stands, and how it differs from the first."""
    one, improved = yours.candidate, yours.improved
    assert one.found is not None
    return {
        "rank": yours.rank,
        "last_rank": yours.last_rank,
        "of": yours.of,
        "values": _values(one),
        "layers": one.found.plan.layers,
        "recompute": one.found.plan.recompute,
        "step_ms": one.step_ns / 1e6,
        "peak_mb": megabytes(max(one.found.rank_bytes)),
        "fits": yours.fits,
        "outside": None if yours.outside is None else english(yours.outside.sentence),
        "improved_step_ms": None if improved is None else improved.step_ns / 1e6,
        **({} if first is None else {"explained": difference_fields(difference(first, one))}),
    }


def neighbour_fields(chosen: Candidate, one: Neighbour) -> dict[str, object]:
    """Return a configuration one step away from a chosen one, with its price or the reason why it cannot be."""
    candidate = one.candidate
    fields: dict[str, object] = {
        "axis": str(one.axis),
        "now": value_of(chosen.training, one.axis),
        "then": one.value,
        "step_ms": None,
    }
    if one.refusal is not None:
        return {**fields, "rule": english(one.refusal.rule), "of": str(one.refusal.place)}
    if one.missing_bytes is not None:
        return {**fields, "missing_mb": megabytes(one.missing_bytes)}
    if candidate is None or candidate.found is None:
        return fields
    return {
        **fields,
        "step_ms": candidate.step_ns / 1e6,
        "more_share": candidate.step_ns / chosen.step_ns - 1,
        "peak_mb": megabytes(max(candidate.found.rank_bytes)),
        "values": _values(candidate),
    }


def two_level_fields(found: TwoLevel) -> dict[str, object]:
    """Return what free shardings could gain over the degrees of a row, or the reason why that is not known."""
    bound_ns = found.lower_bound_ns
    return {
        "rank": found.row or None,
        "could_gain": found.gain,
        "could_gain_at_most": found.most_gain,
        "step_lower_bound_ms": milliseconds(bound_ns) if bound_ns else None,
        "degrees": None if found.degrees is None else _two_level_step(found.degrees),
        "best_degrees": None if found.best_degrees is None else _two_level_step(found.best_degrees),
        "free": None if found.free is None else _two_level_step(found.free),
        "reason": english(found.reason) or None,
    }


def _two_level_step(step: TwoLevelStep) -> dict[str, object]:
    return {
        "step_ms": milliseconds(step.step_ns),
        "microbatch": step.microbatch,
        "microbatches": step.num_microbatches,
        "schedule": step.schedule,
        "peak_mb": megabytes(step.peak_bytes),
        "plan": english(step.words),
    }


def needed_fields(needed: Needed) -> dict[str, object]:
    """Return what would do where nothing fits."""
    memory = needed.memory_bytes
    return {
        "memory_mb": None if memory is None else megabytes(memory),
        "memory_at_least_mb": megabytes(needed.bytes_at_least) or None,
        "devices": needed.devices,
        "had_time": needed.had_time,
    }


def solved_fields(one: Candidate) -> dict[str, object]:
    """Return a configuration with its step and memory."""
    assert one.found is not None
    return {
        "values": _values(one),
        "layers": one.found.plan.layers,
        "recompute": one.found.plan.recompute,
        "step_ms": one.step_ns / 1e6,
        "peak_mb": megabytes(max(one.found.rank_bytes)),
    }


def _values(one: Candidate) -> dict[str, object]:
    return {str(axis): value_of(one.training, axis) for axis in Axis}
