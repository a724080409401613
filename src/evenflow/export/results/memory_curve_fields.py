"""The memory curve of a plan as fields of JSON, every point with its plan."""

from evenflow.profiles.plan_fields import network_fields, plan_fields
from evenflow.simulate import Simulation
from evenflow.solve.sensitivity import Sensitivity
from evenflow.units import megabytes, milliseconds


def memory_curve_fields(worth: Sensitivity, plans: tuple[Simulation, ...]) -> dict[str, object]:
    """Return the curve; `plans` are those of its points, in their order.

    Each point has the fields of a plan file but for the network, which they share.
    """
    curve = worth.curve
    return {
        "memory_limit_mb": megabytes(worth.limit_bytes),
        "makespan_ms": milliseconds(worth.step_ns),
        "least_memory_mb": None if curve.least_bytes is None else megabytes(curve.least_bytes),
        "is_whole": curve.is_whole,
        "points": [
            plan_fields(
                plan,
                status="optimal" if point.is_optimal else "feasible",
                lower_bound_ns=point.lower_bound_ns,
                memory_limit_bytes=point.peak_bytes,
            )
            | {"is_knee": index in curve.knees}
            for index, (point, plan) in enumerate(zip(curve.points, plans, strict=True))
        ],
        "ranks": [
            {
                "rank": rank.rank,
                "more_mb": megabytes(rank.more_bytes),
                "makespan_ms": milliseconds(rank.step_ns),
                "lower_bound_ms": milliseconds(rank.lower_bound_ns),
            }
            for rank in worth.ranks
        ],
    } | network_fields(plans[0])
