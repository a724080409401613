"""JSON of what is asked after a ranking of degrees."""

from evenflow.tune.explain import Difference
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
