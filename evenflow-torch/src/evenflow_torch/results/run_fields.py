"""A training run on torch.distributed: predicted against measured, and the timelines of both."""

from evenflow.export.results.json_text import finite
from evenflow.profiles.timeline_file import TimelineFile
from evenflow.simulate import StageCosts, Timeline
from evenflow.units import megabytes, milliseconds
from evenflow_torch.run.measure.comparison import Comparison
from evenflow_torch.run.values.aa_report import AAReport
from evenflow_torch.run.values.run_job import RunJob
from evenflow_torch.run.values.run_result import RunResult, Verification


def run_fields(job: RunJob, result: RunResult, comparison: Comparison) -> dict[str, object]:
    """Return the result of a run."""
    return {
        "model": result.model,
        "parameters": result.num_parameters,
        "dtype": job.dtype,
        "device": job.device,
        "processes": job.num_processes,
        "ranks": job.plan.num_ranks,
        "data_parallel": job.data_parallel,
        "chunks": job.plan.num_chunks,
        "microbatches": job.plan.num_microbatches,
        "schedule": job.plan.schedule,
        **({"frozen_layers": job.frozen_layers} if job.frozen_layers else {}),
        **({"adapter_rank": job.adapter_rank} if job.adapter_rank else {}),
        "losses": [finite(loss) for loss in result.losses],
        "step_ms": [milliseconds(ns) for ns in comparison.step_ns],
        "step_error": comparison.error,
        "step_error_causes_ms": _causes(result, comparison),
        "step_interval_ms": None
        if comparison.interval_ns is None
        else [milliseconds(limit) for limit in comparison.interval_ns],
        "steps_in_interval": comparison.share_inside,
        "predicted": _side(comparison.predicted, comparison.predicted_peak_bytes),
        "measured": _side(comparison.measured, comparison.measured_peak_bytes),
        "memory_limit_mb": None if job.memory_limit_bytes is None else megabytes(job.memory_limit_bytes),
        "over_memory_limit": [
            rank
            for rank, peak in enumerate(comparison.measured_peak_bytes)
            if job.memory_limit_bytes is not None and peak > job.memory_limit_bytes
        ],
        "calibration": _calibration(result, comparison),
        "verification": None if result.verification is None else _verification(result.verification),
        "aa_check": None if result.aa_check is None else aa_fields(result.aa_check),
    }


def _causes(result: RunResult, comparison: Comparison) -> dict[str, object]:
    """Return what measured minus predicted comes from; the part of the load is in that of the actions."""
    load_ns = comparison.load_off_ns(result.conditions)
    return {
        "actions": milliseconds(comparison.actions_off_ns),
        "load": None if load_ns is None else milliseconds(load_ns),
        "messages": milliseconds(comparison.messages_off_ns),
    }


def timeline_file_of(job: RunJob, comparison: Comparison) -> TimelineFile:
    """Return the timelines of a run, predicted and measured, with the peaks of both, as a file has them."""
    return TimelineFile(
        predicted=comparison.predicted,
        measured=comparison.measured,
        predicted_peak_bytes=comparison.predicted_peak_bytes,
        measured_peak_bytes=comparison.measured_peak_bytes,
        memory_limit_bytes=job.memory_limit_bytes,
    )


def _side(timeline: Timeline, peak_bytes: tuple[int, ...]) -> dict[str, object]:
    return {
        "step_ms": milliseconds(timeline.makespan_ns),
        "busy_ms": [milliseconds(int(ns)) for ns in timeline.busy_ns],
        "bubble_ms": [milliseconds(timeline.makespan_ns - int(ns)) for ns in timeline.busy_ns],
        "peak_memory_mb": [megabytes(peak) for peak in peak_bytes],
    }


def _calibration(result: RunResult, comparison: Comparison) -> dict[str, object]:
    costs, overhead, conditions = comparison.costs, result.overhead, result.conditions
    return {
        "runs": None if conditions is None else conditions.runs,
        "error": None if conditions is None else conditions.error,
        "waiting": None if conditions is None else conditions.waiting,
        "step_waiting": None if conditions is None else conditions.step_waiting,
        "forward_ms": [milliseconds(int(ns)) for ns in costs.forward_ns],
        "backward_ms": [milliseconds(int(ns)) for ns in costs.backward_ns],
        "weight_ms": [milliseconds(int(ns)) for ns in costs.weight_ns],
        "activation_mb": [megabytes(int(size)) for size in costs.activation_bytes],
        "weight_mb": [megabytes(int(size)) for size in costs.until_weight_bytes],
        **_copied(costs),
        "static_mb": [megabytes(int(size)) for size in costs.static_bytes],
        "working_mb": [megabytes(int(size)) for size in costs.working_bytes],
        "message_ms": milliseconds(result.message_ns),
        "overhead_ms": {
            "action": milliseconds(overhead.action_ns),
            "send": milliseconds(overhead.send_ns),
            "receive": milliseconds(overhead.receive_ns),
        },
    }


def _copied(costs: StageCosts) -> dict[str, object]:
    """Return what every stage moves to the host, and how long that takes; nothing where none moves when planned."""
    if costs.offloaded_bytes is None or costs.copy_ns is None:
        return {}
    return {
        "offloaded_mb": [megabytes(int(size)) for size in costs.offloaded_bytes],
        "copy_ms": [milliseconds(int(ns)) for ns in costs.copy_ns],
    }


def _verification(verification: Verification) -> dict[str, object]:
    return {
        "agrees": verification.agrees,
        "loss_error": finite(verification.loss_error),
        "gradient_error": finite(verification.gradient_error),
        "worst_parameter": verification.worst_parameter,
        "tolerance": verification.tolerance,
    }


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
                "rotation_steps": rank.rotation_steps,
                "messages": rank.num_messages,
                "updates": rank.num_updates,
                "update_steps": rank.update_steps,
                "update_ms": milliseconds(rank.update_ns),
                "neighbour_checks": rank.num_neighbour_checks,
                "neighbour_steps": rank.neighbour_steps,
                "neighbour_ms": milliseconds(rank.neighbour_ns),
                "without_neighbour": rank.without_neighbour,
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
                "evidence": mismatch.evidence,
                "other_rank": mismatch.other_rank,
            }
            for mismatch in report.mismatches
        ],
    }


def _item(item: tuple[int, str]) -> dict[str, object]:
    stage, direction = item
    return {"stage": stage, "direction": str(direction)}
