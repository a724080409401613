"""The plan of ``evenflow run --elastic``, made again where other numbers of processes are there than it has ranks.

All processes train by one plan. The first makes it and writes it beside the checkpoints, from where the others read it.
"""

import hashlib
import time
from pathlib import Path

import click

from evenflow.cli.shared.files.output_files import write_whole
from evenflow.errors import InputError, RunError
from evenflow.export.results.json_text import format_object
from evenflow.export.results.outcome_fields import outcome_fields
from evenflow.language import _, _n
from evenflow.profiles.mesh_plan_file import parse_mesh_plan
from evenflow.profiles.plan_fields import network_fields
from evenflow.profiles.plan_file import PlanFile, parse_plan_file
from evenflow.simulate import simulate
from evenflow.solve.replan import replan_for
from evenflow.units import megabytes, milliseconds
from evenflow_torch.verbs.run.elastic_auto import auto_plan_for

_PLAN_SECONDS = 20.0
"""Most seconds for a plan, during which nothing is trained."""
_WAIT_SECONDS = 300.0
"""Most seconds to wait for the plan of the first process, whose machine may be busy."""
_POLL_SECONDS = 0.1


def plan_for_processes(
    text: str, place: str, *, model: str, num_processes: int, data_parallel: int, folder: Path, is_first: bool
) -> str:
    """Return the text of the plan file for so many processes, which is `text` itself where it has as many.

    Every rank, or device of a plan of ``evenflow auto``, has `data_parallel` of the processes; such a plan is made of
    the configuration `model`. `folder` is that of the checkpoints, and `is_first` says whether
    this is the process that plans. What was planned before is used again.

    Raises:
        InputError: a plan that cannot be made again, or a number of processes that replicas cannot share.
        RunError: no plan for so many ranks fits in memory, or none was found in time.
    """
    planned = parse_plan_file(text, place=place)
    meshes = parse_mesh_plan(text, place=place)
    before = planned.plan.num_ranks if meshes is None else meshes.cluster.num_devices
    if num_processes == before * data_parallel:
        return text
    num_ranks, rest = divmod(num_processes, data_parallel)
    if rest:
        raise InputError(
            value=num_processes,
            rule=_("must be a multiple of --data-parallel {count}", count=data_parallel),
            place=_("the number of processes"),
        )
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    path = folder / f"plan-{digest}-for-{num_ranks}.json"
    if is_first and not path.exists():
        fields = (
            _planned_again(planned, num_ranks, path)
            if meshes is None
            else auto_plan_for(
                text, place, model=model, cluster=meshes.cluster, num_devices=num_ranks, seconds=_PLAN_SECONDS
            )
        )
        write_whole(path, format_object(fields).encode(), option="--save")
    end_s = time.monotonic() + _WAIT_SECONDS
    while not path.exists():
        if time.monotonic() > end_s:
            raise RunError(_("the first process has written no plan for {count} ranks", count=num_ranks))
        time.sleep(_POLL_SECONDS)
    return path.read_text(encoding="utf-8")


def _planned_again(planned: PlanFile, num_ranks: int, path: Path) -> dict[str, object]:
    """Return the fields of the best plan for so many ranks, and say what it is."""
    if planned.network is None:
        raise InputError(
            rule=_("must hold the model that it is a plan of"),
            place="PLAN.json",
            remedy=_("use one that evenflow plan wrote with --json"),
        )
    running = simulate(planned.network, planned.plan, communication=planned.communication)
    click.echo(
        _n(
            "planning for one rank instead of {before} ...",
            "planning for {count} ranks instead of {before} ...",
            count=num_ranks,
            before=planned.plan.num_ranks,
        ),
        err=True,
    )
    limit = planned.memory_limit_bytes
    outcome = replan_for(running, num_ranks, memory_limit_bytes=limit, time_limit_s=_PLAN_SECONDS)
    if outcome.simulation is None or outcome.plan is None:
        raise RunError(
            _n(
                "no plan for one rank is known that fits in {limit:,.0f} MB: plan for it with evenflow plan",
                "no plan for {count} ranks is known that fits in {limit:,.0f} MB: plan for them with evenflow plan",
                count=num_ranks,
                limit=megabytes(limit or 0),
            )
        )
    click.echo(
        _(
            "a step of {step:,.1f} ms is predicted, {before:,.1f} ms before; the plan is {path}",
            step=milliseconds(outcome.simulation.makespan_ns),
            before=milliseconds(running.makespan_ns),
            path=str(path),
        ),
        err=True,
    )
    plan = outcome.plan
    return outcome_fields(outcome, plan.sizes, schedule=plan.schedule) | network_fields(outcome.simulation)
