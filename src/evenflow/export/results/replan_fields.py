"""Another plan for a running pipeline, and what it moves."""

from evenflow.export.results.outcome_fields import outcome_fields
from evenflow.profiles.plan_fields import network_fields
from evenflow.solve.replan import Replanned
from evenflow.units import megabytes, milliseconds


def replan_fields(replanned: Replanned, *, move_bytes_per_s: int | None) -> dict[str, object]:
    """Return the fields of the best plan, a plan file, with the running plan's step and the moves beside them."""
    plan, outcome = replanned.before.plan, replanned.outcome
    fields = outcome_fields(outcome, plan.sizes, schedule=plan.schedule)
    if outcome.simulation is not None:
        fields |= network_fields(outcome.simulation)
    moving_ns = None if move_bytes_per_s is None else replanned.moving_ns(move_bytes_per_s)
    return fields | {
        "rank_speed": [rank.speed for rank in replanned.before.network.ranks],
        "running_makespan_ms": milliseconds(replanned.before.makespan_ns),
        "moves": [
            {
                "layers": [move.layers[0], move.layers[-1]],
                "from_rank": move.source,
                "to_rank": move.target,
                "state_mb": megabytes(move.state_bytes),
            }
            for move in replanned.moves
        ],
        "moving_ms": None if moving_ns is None else milliseconds(moving_ns),
    }
