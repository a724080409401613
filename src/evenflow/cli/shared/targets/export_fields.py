"""The JSON of a plan for a framework: a plan file, with what was written and what is lost."""

from evenflow.cli.shared.targets.fitted_plan import FittedPlan
from evenflow.profiles.plan_fields import plan_file_fields
from evenflow.targets.target import Target, Written
from evenflow.units import megabytes, milliseconds


def written_fields(written: Written) -> dict[str, object]:
    """Return the fields of what was written for a framework."""
    return {
        "pieces": [
            {"title": piece.title, "syntax": piece.syntax, "file_name": piece.file_name or None, "text": piece.text}
            for piece in written.pieces
        ],
        "environment": dict(written.environment),
        "notes": list(written.notes),
    }


def fitted_fields(fitted_plan: FittedPlan, target: Target, version: str) -> dict[str, object]:
    """Return the fields of a plan as the framework runs it, with its losses.

    It is a plan file where the model is known.
    """
    losses = () if fitted_plan.fitted is None else fitted_plan.fitted.losses
    plan: dict[str, object] = {}
    if fitted_plan.fitted is not None:
        plan = plan_file_fields(fitted_plan.fitted.simulation, fitted_plan.memory_limit_bytes)
    return {
        "target": target.name,
        "target_version": version,
        "checked_with": target.checked_with or None,
        "degrees_checked_with": target.degrees_checked_with or None,
        "exact": not losses,
        "losses": [
            {
                "what": loss.what,
                "longer_ms": milliseconds(loss.longer_ns),
                "more_mb": megabytes(loss.more_bytes),
                "peak_memory_mb": megabytes(loss.peak_bytes),
                "rank": loss.rank,
            }
            for loss in losses
        ],
        **plan,
    }
