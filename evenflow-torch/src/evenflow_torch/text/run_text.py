"""A run as text: a line for each step, predicted against measured, and a picture."""

from evenflow.cli.text.tables import aligned
from evenflow.draw.measured_picture import measured_svg
from evenflow.export.chrome_trace import TracedStep, chrome_trace
from evenflow.language import _, _n
from evenflow.simulate import Timeline
from evenflow.units import megabytes, milliseconds
from evenflow_torch.run.measure.comparison import Comparison
from evenflow_torch.run.values.run_job import RunJob
from evenflow_torch.run.values.run_result import Conditions, RunResult, StepReport, Verification
from evenflow_torch.text.aa_text import audit_text

BUSY = 0.05
"""A share of waiting, or an error of the times, above which predictions are not to be trusted."""


def step_line(step: StepReport, num_steps: int) -> str:
    """Return ``step  3/20  loss 5.1234  12.3 ms``; steps count from 1."""
    width = len(str(num_steps))
    line = _(
        "step {step}/{num_steps}  loss {loss:.6g}  {step_ms:,.1f} ms",
        step=f"{step.step + 1:>{width}}",
        num_steps=num_steps,
        loss=step.loss,
        step_ms=milliseconds(step.step_ns),
    )
    if step.tokens_per_s is not None:
        line += _("  {tokens:,.0f} tokens/s", tokens=step.tokens_per_s)
    if step.peak_share is not None:
        line += _("  MFU {share:.1f} %", share=100 * step.peak_share)
    if step.memory_bytes is not None:
        line += _("  {memory:,.0f} MB", memory=megabytes(step.memory_bytes))
    if step.eval_loss is not None:
        line += _("  evaluated: loss {loss:.6g}", loss=step.eval_loss)
    return line


def comparison_text(job: RunJob, result: RunResult, comparison: Comparison) -> str:
    """Return headline, step time, and for each rank busy and idle time and peak memory, predicted and measured."""
    predicted, measured = comparison.predicted, comparison.measured
    steps = sorted(comparison.step_ns)
    machine = _n("one rank ({device})", "{count} ranks ({device})", count=job.plan.num_ranks, device=job.device)
    if job.data_parallel > 1:
        machine = _("{replicas} replicas of {where}", replicas=job.data_parallel, where=machine)
    if job.mesh_plan is not None:
        machine = _("{num_processes} devices as {where}", num_processes=job.num_processes, where=machine)
    lines = [
        _(
            "{model}, {num_parameters:,} parameters, {dtype}, on {where}, {schedule}",
            model=result.model,
            num_parameters=result.num_parameters,
            dtype=job.dtype,
            where=machine,
            schedule=job.plan.schedule,
        ),
        _(
            "loss {first:.6g} -> {last:.6g} in {steps} steps",
            first=result.losses[0],
            last=result.losses[-1],
            steps=len(result.losses),
        ),
        _(
            "step: predicted {predicted_ms:,.3f} ms, measured {measured_ms:,.3f} ms ({error:+.1f} %); "
            "median of {steps} steps from {least_ms:,.3f} to {most_ms:,.3f} ms",
            predicted_ms=milliseconds(predicted.makespan_ns),
            measured_ms=milliseconds(measured.makespan_ns),
            error=100 * comparison.error,
            steps=len(steps),
            least_ms=milliseconds(steps[0]),
            most_ms=milliseconds(steps[-1]),
        ),
    ]
    lines.append(causes_line(comparison, result.conditions))
    if comparison.interval_ns is not None and comparison.share_inside is not None:
        least, most = comparison.interval_ns
        lines.append(
            _(
                "80 % of the steps are expected from {least_ms:,.3f} to {most_ms:,.3f} ms, {source}; {share:.0f} % of "
                "those measured are",
                least_ms=milliseconds(least),
                most_ms=milliseconds(most),
                source=_("as nine steps before the training took")
                if comparison.is_rehearsed
                else _("as the stages scatter"),
                share=100 * comparison.share_inside,
            )
        )
    if result.conditions is not None:
        lines += conditions_lines(result.conditions)
    header = [_("rank"), _("busy ms"), _("measured"), _("bubble ms"), _("measured"), _("peak MB"), _("measured")]
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
    if job.memory_limit_bytes is not None:
        paragraphs.append(memory_text(job.memory_limit_bytes, comparison))
    if result.verification is not None:
        paragraphs.append(verification_text(result.verification))
    if result.aa_check is not None:
        paragraphs.append(audit_text(result.aa_check))
    return "\n\n".join(paragraphs)


def causes_line(comparison: Comparison, conditions: Conditions | None) -> str:
    """Return what the difference between the measured step and the predicted one comes from."""
    load_ns = comparison.load_off_ns(conditions)
    actions = f"{milliseconds(comparison.actions_off_ns):+,.3f}"
    if load_ns is not None:
        actions = _(
            "{actions} ms ({load} ms of it for more or less waiting for a processor)",
            actions=actions,
            load=f"{milliseconds(load_ns):+,.3f}",
        )
    else:
        actions = _("{actions} ms", actions=actions)
    return _(
        "measured minus predicted: {actions} as actions took longer or shorter than when they were measured alone, "
        "{messages:+,.3f} ms for messages and what is between actions",
        actions=actions,
        messages=milliseconds(comparison.messages_off_ns),
    )


def conditions_lines(conditions: Conditions) -> list[str]:
    """Return how well the times are known that the prediction is made of, and a warning where that is not well."""
    lines = [
        _(
            "stages were measured {runs} times, their medians are known to {error:.1f} %",
            runs=conditions.runs,
            error=100 * conditions.error,
        )
    ]
    waiting, in_steps = conditions.waiting, conditions.step_waiting
    if waiting is None or in_steps is None:
        lines[0] += _("; the load of this machine is not known")
        return lines
    lines[0] += _(
        "; the rank that waited most waited {waiting:.0f} % of that time for a processor, and {in_steps:.0f} % of the "
        "measured steps",
        waiting=100 * waiting,
        in_steps=100 * in_steps,
    )
    if max(waiting, in_steps, conditions.error) > BUSY:
        lines.append(
            _(
                "note: this machine was busy, and a prediction is off by as much as its load changes; end other "
                "programs, or run fewer ranks than there are processors"
            )
        )
    return lines


def memory_text(limit_bytes: int, comparison: Comparison) -> str:
    """Return one sentence: whether the measured peaks were within the limit of the plan."""
    peaks = comparison.measured_peak_bytes
    limit = f"{megabytes(limit_bytes):,.1f}"
    over = [rank for rank, peak in enumerate(peaks) if peak > limit_bytes]
    if not over:
        return _("memory: every rank stayed within the plan's limit of {limit} MB", limit=limit)
    worst = max(over, key=lambda rank: peaks[rank])
    return _(
        "memory: OVER THE PLAN'S LIMIT of {limit} MB on rank {ranks}; rank {worst} held {peak} MB at its peak; plan "
        "again with the memory that was measured, or with a lower limit",
        limit=limit,
        ranks=", ".join(map(str, over)),
        worst=worst,
        peak=f"{megabytes(peaks[worst]):,.1f}",
    )


def verification_text(verification: Verification) -> str:
    """Return one sentence: whether the pipeline computed what the unsplit model does."""
    gradient = f"{verification.gradient_error:.2g}"
    error = (
        _("{error} of a gradient, of {parameter}", error=gradient, parameter=verification.worst_parameter)
        if verification.worst_parameter
        else _("{error} of a gradient", error=gradient)
    )
    agreement = (
        _("losses and gradients agree with the unsplit model")
        if verification.agrees
        else _("losses and gradients DO NOT AGREE with the unsplit model")
    )
    return _(
        "verification: {agreement}; largest relative error {loss_error:.2g} of a loss, {gradient_error}; "
        "tolerance {tolerance:g}",
        agreement=agreement,
        loss_error=verification.loss_error,
        gradient_error=error,
        tolerance=verification.tolerance,
    )


def measured_picture(job: RunJob, result: RunResult, comparison: Comparison) -> str:
    """Return a picture of the measured step under the predicted one."""
    return measured_svg(comparison.predicted, comparison.measured, title=_title(job, result))


def run_page(job: RunJob, result: RunResult, comparison: Comparison, *, plan: str, made_by: str) -> str:
    """Return a page with the predicted step and the measured one; it carries the text of the plan file."""
    from evenflow.report import report_html
    from evenflow_torch.pages.of_run import shown_run

    return report_html(shown_run(job, comparison, plan=plan), title=_title(job, result), made_by=made_by)


def _title(job: RunJob, result: RunResult) -> str:
    return f"{result.model}, {job.plan.schedule}, {job.plan.num_ranks} ranks x {job.plan.num_chunks} chunks"


def measured_trace(job: RunJob, comparison: Comparison) -> str:
    """Return the predicted and the measured step as a Chrome trace."""
    predicted = TracedStep(
        name="predicted",
        timeline=comparison.predicted,
        plan=job.plan,
        costs=comparison.costs,
        memory_limit_bytes=job.memory_limit_bytes,
    )
    measured = TracedStep(name="measured", timeline=comparison.measured, plan=job.plan)
    return chrome_trace([predicted, measured])


def _bubble(timeline: Timeline, rank: int) -> int:
    return timeline.makespan_ns - int(timeline.busy_ns[rank])
