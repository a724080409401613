"""The JSON of ``evenflow export``: a plan file, with what was written for the framework and what is lost."""

from evenflow.cli.shared.targets.fitted_plan import FittedPlan
from evenflow.export.results.network_fields import network_fields
from evenflow.export.results.plan_fields import simulation_fields
from evenflow.targets.target import Target, Written
from evenflow.units import megabytes, milliseconds


def export_fields(found: FittedPlan, target: Target, version: str, written: Written) -> dict[str, object]:
    """Return the fields of a plan as the framework runs it, where the model is known, and of what was written."""
    losses = () if found.fitted is None else found.fitted.losses
    plan: dict[str, object] = {}
    if found.fitted is not None:
        simulation = found.fitted.simulation
        plan = simulation_fields(simulation, found.memory_limit_bytes) | network_fields(simulation)
    return {
        "target": target.name,
        "version": version,
        "checked_with": target.checked_with or None,
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
        "pieces": [
            {"title": piece.title, "syntax": piece.syntax, "file_name": piece.file_name or None, "text": piece.text}
            for piece in written.pieces
        ],
        "environment": dict(written.environment),
        "notes": list(written.notes),
        **plan,
    }
