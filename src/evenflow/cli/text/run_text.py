"""A run as text: a line for each step, predicted against measured, and a picture."""

from evenflow.cli.text.aa_text import audit_text
from evenflow.cli.text.tables import aligned
from evenflow.draw.measured_picture import measured_svg
from evenflow.run.measure.comparison import Comparison
from evenflow.run.values.run_job import RunJob
from evenflow.run.values.run_result import RunResult, StepReport, Verification
from evenflow.simulate import Timeline
from evenflow.units import megabytes, milliseconds


def step_line(step: StepReport, num_steps: int) -> str:
    """Return ``step  3/20  loss 5.1234  12.3 ms``; steps count from 1."""
    width = len(str(num_steps))
    return f"step {step.step + 1:>{width}}/{num_steps}  loss {step.loss:.6g}  {milliseconds(step.step_ns):,.1f} ms"


def comparison_text(job: RunJob, result: RunResult, comparison: Comparison) -> str:
    """Return headline, step time, and for each rank busy and idle time and peak memory, predicted and measured."""
    predicted, measured = comparison.predicted, comparison.measured
    steps = sorted(comparison.step_ns)
    where = f"{job.plan.num_ranks} ranks ({job.device})"
    if job.mesh_plan is not None:
        where = f"{job.num_processes} devices as {where}"
    lines = [
        f"{result.model}, {result.num_parameters:,} parameters, {job.dtype}, on {where}, {job.plan.schedule}",
        f"loss {result.losses[0]:.6g} -> {result.losses[-1]:.6g} in {len(result.losses)} steps",
        f"step: predicted {milliseconds(predicted.makespan_ns):,.3f} ms, measured "
        f"{milliseconds(measured.makespan_ns):,.3f} ms ({100 * comparison.error:+.1f} %); median of {len(steps)} steps "
        f"from {milliseconds(steps[0]):,.3f} to {milliseconds(steps[-1]):,.3f} ms",
    ]
    header = ["rank", "busy ms", "measured", "bubble ms", "measured", "peak MB", "measured"]
    rows = [
        [
            str(rank),
            *(f"{milliseconds(int(side.busy_ns[rank])):,.3f}" for side in (predicted, measured)),
            *(f"{milliseconds(_bubble(side, rank)):,.3f}" for side in (predicted, measured)),
            f"{megabytes(comparison.predicted_peak_bytes[rank]):,.1f}",
            f"{megabytes(comparison.measured_peak_bytes[rank]):,.1f}",
        ]
        for rank in range(job.plan.num_ranks)
    ]
    paragraphs = ["\n".join(lines), aligned(header, rows)]
    if result.verification is not None:
        paragraphs.append(verification_text(result.verification))
    if result.aa_check is not None:
        paragraphs.append(audit_text(result.aa_check))
    return "\n\n".join(paragraphs)


def verification_text(verification: Verification) -> str:
    """Return one sentence: whether the pipeline computed what the unsplit model does."""
    worst = f", of {verification.worst_parameter}" if verification.worst_parameter else ""
    return (
        f"verification: losses and gradients {'agree' if verification.agrees else 'DO NOT AGREE'} with the unsplit "
        f"model; largest relative error {verification.loss_error:.2g} of a loss, {verification.gradient_error:.2g} "
        f"of a gradient{worst}; tolerance {verification.tolerance:g}"
    )


def measured_picture(job: RunJob, result: RunResult, comparison: Comparison) -> str:
    """Return a picture of the measured step under the predicted one."""
    title = f"{result.model}, {job.plan.schedule}, {job.plan.num_ranks} ranks x {job.plan.num_chunks} chunks"
    return measured_svg(comparison.predicted, comparison.measured, title=title)


def _bubble(timeline: Timeline, rank: int) -> int:
    return timeline.makespan_ns - int(timeline.busy_ns[rank])
