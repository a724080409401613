"""The A/A check of a run: work that was done again inside the bubbles and compared bit for bit."""

from evenflow.units import milliseconds
from evenflow_torch.run.values.aa_report import AAReport


def aa_fields(report: AAReport) -> dict[str, object]:
    """Return what was checked on each rank, and every difference."""
    return {
        "checked_steps": report.num_checked_steps,
        "checked_step_ms": milliseconds(report.checked_step_ns),
        "plain_step_ms": milliseconds(report.plain_step_ns),
        "cost": report.cost,
        "ranks": [
            {
                "checks": rank.num_checks,
                "share_per_step": rank.share_per_step,
                "share_of_run": rank.share_of_run,
                "check_ms": milliseconds(rank.check_ns),
                "fits_no_bubble": [_item(item) for item in rank.fits_no_bubble],
                "never_checked": [_item(item) for item in rank.never_checked],
                "injected": rank.injected,
            }
            for rank in report.ranks
        ],
        "mismatches": [
            {
                "rank": mismatch.rank,
                "stage": mismatch.stage,
                "microbatch": mismatch.microbatch,
                "step": mismatch.step + 1,
                "direction": mismatch.direction,
                "tensor": mismatch.tensor,
                "numbers": mismatch.num_different,
            }
            for mismatch in report.mismatches
        ],
    }


def _item(item: tuple[int, str]) -> dict[str, object]:
    stage, direction = item
    return {"stage": stage, "direction": str(direction)}
