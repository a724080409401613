"""JSON of what is asked after a ranking of degrees."""

from evenflow.language import english
from evenflow.tune.answers.explain import Difference
from evenflow.tune.answers.neighbours import Neighbour
from evenflow.tune.axes import Axis, value_of
from evenflow.tune.candidate import Candidate
from evenflow.units import megabytes


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
        "values": {str(axis): value_of(candidate.training, axis) for axis in Axis},
    }
