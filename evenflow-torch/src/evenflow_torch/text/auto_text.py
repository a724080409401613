"""A two-level plan as text."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from evenflow.cli.text.tables import aligned, bubble_table
from evenflow.language import _, _n, joined
from evenflow.model import NONE
from evenflow.solve import Status
from evenflow.units import megabytes, milliseconds
from evenflow_torch.requests import AutoRequest
from evenflow_torch.text.auto_placements import placement_texts

if TYPE_CHECKING:
    from evenflow_torch.auto.planner import AutoPlan
    from evenflow_torch.auto.stages.two_level_plan import PlainGrid, TwoLevelPlan


def auto_text(result: "AutoPlan", request: AutoRequest, *, seconds: float) -> str:
    """Return headline, answer, stages, costs by part, alternatives, refinement, placements and notes."""
    cluster, simulation = result.cluster, result.simulation
    mesh = f"{cluster.num_nodes}x{cluster.devices_per_node}"
    work = _(
        "{num_microbatches} microbatches of {microbatch} x {sequence} tokens",
        num_microbatches=result.num_microbatches,
        microbatch=request.microbatch,
        sequence=request.sequence,
    )
    head = _(
        "{name}: {layers} layers on a mesh of {mesh} devices, {work}, {schedule}",
        name=result.row.name,
        layers=len(result.row.body),
        mesh=mesh,
        work=work,
        schedule=simulation.plan.schedule,
    )
    paragraphs = [
        head,
        "\n".join(answer_lines(result, seconds)),
        _stage_table(result),
        _cost_table(result),
        bubble_table(simulation),
        _batches(result),
        "" if result.is_own else _alternatives(result),
        _plain(result),
        "" if result.is_own else _refinement(result),
        *placement_texts(result),
        "\n".join(_("note: {note}", note=note) for note in result.notes),
    ]
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def shortage_text(result: "AutoPlan") -> str:
    """Return why there is no plan, and what would be enough."""
    assert result.search.shortage is not None
    return _("infeasible: {message}", message=result.search.shortage.message(result.cluster))


def answer_lines(result: "AutoPlan", seconds: float | None = None) -> Iterator[str]:
    """Yield the step, how long it took to find where that is given, what the plan is, its memory and how good it is."""
    from evenflow_torch.auto.stage_groups import summary

    two_level, simulation = result.two_level, result.simulation
    assert two_level is not None
    makespan_ms = milliseconds(simulation.makespan_ns)
    if seconds is None:
        yield _("step {makespan_ms:,.3f} ms simulated, messages included", makespan_ms=makespan_ms)
    else:
        yield _(
            "step {makespan_ms:,.3f} ms simulated, messages included; found in {seconds:.1f} s",
            makespan_ms=makespan_ms,
            seconds=seconds,
        )
    yield _("plan: {words}", words=summary(result.stages))
    peak, limit = megabytes(max(simulation.peak_memory_bytes)), megabytes(result.cluster.memory_bytes)
    yield _("memory: peak {peak:,.0f} MB of {limit:,.0f} MB", peak=peak, limit=limit)
    if peak > limit:
        yield _("it does not fit: {over:,.0f} MB too much", over=peak - limit)
    if result.is_own:
        return
    gap = 100 * (1 - two_level.lower_bound_ns / two_level.step_ns)
    yield _(
        "stages: {step_ms:,.3f} ms by the pipeline's equation; no stages with these shardings, and at most two "
        "recompute kinds each, take less than {bound_ms:,.3f} ms (gap {gap:.2f} %)",
        step_ms=milliseconds(two_level.step_ns),
        bound_ms=milliseconds(two_level.lower_bound_ns),
        gap=gap,
    )
    bound_ns = result.lower_bound_ns
    if bound_ns:
        yield (
            _(
                "bound: no plan at all takes less than {bound_ms:,.3f} ms, the least work of all devices",
                bound_ms=milliseconds(bound_ns),
            )
            if result.bound_holds_for_all
            else _(
                "bound: no stages on submeshes with these shardings and at most two recompute kinds each, in any order "
                "of whole backwards, take less than {bound_ms:,.3f} ms simulated",
                bound_ms=milliseconds(bound_ns),
            )
        )
    programs = list(result.provider.solved_programs())
    proven = sum(plan.status is Status.OPTIMAL for plan in programs)
    if not programs:  # plain plans alone
        return
    yield _(
        "shardings: {proven} of {num_programs} integer programs solved to proven optimality",
        proven=proven,
        num_programs=len(programs),
    )


def _stage_table(result: "AutoPlan") -> str:
    """Return a row for each stage; peak memory is that of its rank."""
    from evenflow_torch.auto.stage_groups import span

    header = [
        _("stage"),
        _("layers"),
        _("devices"),
        _("recompute"),
        _("forward ms"),
        _("backward ms"),
        _("peak MB"),
        _("sharding"),
    ]
    costs, peaks = result.simulation.costs, result.simulation.peak_memory_bytes
    rows = [
        [
            str(stage.stage),
            span(stage.first, stage.end),
            f"{span(stage.devices.start, stage.devices.stop)} ({stage.submesh})",
            ", ".join(f"{kind} {count}" for kind, count in stage.recompute.items()) or NONE,
            f"{milliseconds(int(costs.forward_ns[stage.stage])):,.3f}",
            f"{milliseconds(int(costs.backward_ns[stage.stage])):,.3f}",
            f"{megabytes(peaks[stage.rank]):,.0f}",
            stage.use.words,
        ]
        for stage in result.stages
    ]
    return aligned(header, rows, left={2, 3, 7}, leaving=(5, 4))


def _cost_table(result: "AutoPlan") -> str:
    """Return the time of one microbatch on each stage by kind of work, and gradients and messages beside it.

    Communication counts as far as it is exposed; what of a step's runs under computation has a column of its own.
    """
    header = [
        _("ms"),
        _("compute"),
        _("communication"),
        _("resharding"),
        _("gradient/step"),
        _("optimizer/step"),
        _("hidden/step"),
        _("recompute"),
        _("between stages"),
    ]
    base = result.simulation
    messages = _messages_ms(result)
    rows = []
    for stage in result.stages:
        option = stage.option
        parts = [option.compute_ns, option.communication_ns, option.resharding_ns, option.gradient_ns]
        parts += [option.optimizer_ns, option.hidden_ns * result.num_microbatches + option.hidden_update_ns]
        parts.append(int(base.costs.recompute_ns[stage.stage]))
        sent = messages[stage.stage] if stage.stage < len(messages) else 0.0
        rows.append(
            [_("stage {stage}", stage=stage.stage), *(f"{milliseconds(part):,.3f}" for part in parts), f"{sent:,.3f}"]
        )
    return aligned(header, rows, left={0}, leaving=(8, 6, 5, 4))


def _messages_ms(result: "AutoPlan") -> list[float]:
    """Return the time from each stage to the next and back; nothing where stages were refined."""
    plan = result.two_level
    if plan is None or result.refined:
        return []
    return [
        milliseconds(there.cost_ns + back.cost_ns) for there, back in zip(plan.activations, plan.gradients, strict=True)
    ]


def _batches(result: "AutoPlan") -> str:
    """Return the sizes of a microbatch that were considered, with a mark at the answer's."""
    if not result.batches:
        return ""
    from evenflow_torch.auto.planner import BatchOutcome

    outcomes = {
        BatchOutcome.PLANNED: _("planned"),
        BatchOutcome.DOES_NOT_FIT: _("does not fit"),
        BatchOutcome.BOUNDED: _("dropped by its bound"),
        BatchOutcome.NO_TIME: _("no time"),
    }
    rows = [
        [
            "*" if batch.num_microbatches == result.num_microbatches else "",
            str(batch.microbatch),
            str(batch.num_microbatches),
            "-" if batch.step_ns is None else f"{milliseconds(batch.step_ns):,.3f}",
            "-" if batch.lower_bound_ns is None else f"{milliseconds(batch.lower_bound_ns):,.3f}",
            outcomes[batch.outcome],
        ]
        for batch in result.batches
    ]
    header = ["", _("microbatch"), _("microbatches"), _("simulated ms"), _("bound ms"), _("outcome")]
    global_batch = result.batches[0].microbatch * result.batches[0].num_microbatches
    title = _("sizes of a microbatch ({global_batch} sequences a step)", global_batch=global_batch)
    return f"{title}\n{aligned(header, rows, left={0, 5}, leaving=(4,))}"


def _alternatives(result: "AutoPlan") -> str:
    """Return the best stages of every number, with a mark at the answer."""
    rows = []
    for plan in result.search.alternatives:
        mark = "*" if plan is result.two_level else ""
        rows.append(
            [
                mark,
                str(len(plan.stages)),
                f"{milliseconds(plan.step_ns):,.3f}",
                f"{milliseconds(plan.lower_bound_ns):,.3f}",
                f"{milliseconds(plan.timeline.makespan_ns):,.3f}",
                _stages_in_words(plan, result),
            ]
        )
    table = aligned(
        ["", _("stages"), _("by equation ms"), _("bound ms"), _("simulated ms"), _("sharding")],
        rows,
        left={0, 5},
        leaving=(3, 2),
    )
    title = _("alternatives ({count:,} different stages evaluated)", count=result.search.num_evaluated)
    return f"{title}\n{table}"


_MOST_PLAIN = 10


def _plain(result: "AutoPlan") -> str:
    """Return a table of the shortest plain plans, with the reason where one without a pipeline is missing."""
    grids = result.search.grids
    there = [grid for grid in grids if grid.plan][:_MOST_PLAIN]
    rows = [
        [
            "*" if grid.plan is result.two_level else "",
            grid.name,
            NONE if grid.plan is None else grid.plan.stages[0].cost.recompute,
            _why_not(grid) if grid.plan is None else f"{milliseconds(grid.plan.timeline.makespan_ns):,.3f}",
        ]
        for grid in (*there, *(grid for grid in grids if grid.plan is None and grid.num_stages == 1))
    ]
    if not rows:
        return ""
    table = aligned(["", _("plain plan"), _("recompute"), _("simulated ms")], rows, left={0, 1, 2})
    title = _("plans as people write them, priced alike: the shortest of {count:,}", count=len(grids))
    return f"{title}\n{table}"


def _why_not(grid: "PlainGrid") -> str:
    if grid.memory_bytes is None:
        return grid.reason
    return _("needs {memory_mb:,.0f} MB", memory_mb=megabytes(grid.memory_bytes))


def _stages_in_words(plan: "TwoLevelPlan", result: "AutoPlan") -> str:
    """Return what the stages do, such as ``3 x tensor parallel over 2; 1 x one device``."""
    counts: Counter[str] = Counter()
    for stage in plan.stages:
        counts[result.use((stage.first, stage.end), stage.submesh, stage.cost.sharding).main_words] += 1
    if len(counts) == 1:
        return next(iter(counts))
    return joined(_("{count} x {words}", count=count, words=sharding) for sharding, count in counts.items())


def _refinement(result: "AutoPlan") -> str:
    """Return what the exact solver adds."""
    refinement = result.refinement
    if refinement is None:
        return _("refinement: none, since no plan has equal submeshes")
    rows = [
        [
            _n("{schedule}, 1 chunk", "{schedule}, {count} chunks", count=tried.num_chunks, schedule=tried.schedule),
            tried.outcome.status.word,
            "-" if tried.timeline is None else f"{milliseconds(tried.timeline.makespan_ns):,.3f}",
            f"{milliseconds(tried.outcome.lower_bound_ns):,.3f}",
            result.use((0, refinement.base.stages[-1].end), refinement.base.stages[0].submesh, tried.sharding).words,
        ]
        for tried in refinement.tried
    ]
    table = aligned(
        [_("schedule"), _("status"), _("simulated ms"), _("bound ms"), _("sharding")],
        rows,
        left={0, 1, 4},
        leaving=(3,),
    )
    sentence = _("refinement by the exact solver adds {saved:.1f} %", saved=100 * refinement.saved)
    if refinement.best:
        sentence = _(
            "{sentence}: {schedule}, {before_ms:,.3f} ms before",
            sentence=sentence,
            schedule=refinement.best.schedule,
            before_ms=milliseconds(refinement.two_level_ns),
        )
    return f"{sentence}\n{table}"
