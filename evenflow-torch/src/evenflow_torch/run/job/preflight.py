"""Checks that a job can be run, before any process starts."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from evenflow.cluster import MeshPlan
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.simulate import build_graph
from evenflow_torch.models.families.row_modules import dropping_module
from evenflow_torch.models.parts import ModelRow
from evenflow_torch.run.engine.order import check_world, runnable_order
from evenflow_torch.run.engine.recompute_layers import check_kinds
from evenflow_torch.run.engine.stages import StageParts, boundary_shapes, cut
from evenflow_torch.run.job.adapters import with_adapters
from evenflow_torch.run.job.models import build_model, model_values
from evenflow_torch.run.job.needed_memory import check_memory, least_bytes, least_bytes_of_sizes
from evenflow_torch.run.job.training_data import open_data
from evenflow_torch.run.mesh.mesh_plan_check import check_mesh_plan
from evenflow_torch.run.values.run_job import LEAST_STEPS, WARM_UP_STEPS, Device, RunJob


def checked(job: RunJob, *, num_processes: int | None = None, num_local: int | None = None) -> RunJob:
    """Return `job` with its device filled in.

    `num_processes` and `num_local` are how many processes there are, and how many on this machine; by default as many
    as the plan has ranks, all here.

    Raises:
        InputError: order, model, number of processes or devices do not fit the plan.
    """
    schedule = runnable_order(job.plan)
    build_graph(schedule)  # refuses an order that would wait forever
    if num_processes is not None:
        check_world(job.plan, num_processes, job.mesh_plan, num_replicas=job.data_parallel)
    needed, there = num_local or job.num_processes, torch.cuda.device_count()
    if job.device is Device.CUDA and there < needed:
        raise InputError(
            rule=_(
                "must not be cuda where ranks have no GPU of their own: {needed} are needed here, {there} are there",
                needed=needed,
                there=there,
            ),
            place="--device",
            remedy=_("use --device cpu, or more machines with torchrun"),
        )
    job = replace(job, device=job.device or (Device.CUDA if there >= needed else Device.CPU))
    values = model_values(job)
    sizes = least_bytes_of_sizes(job, vocabulary=values.get("vocab_size") or 1, hidden=values.get("hidden_size") or 1)
    check_memory(job, sizes, here=needed)  # before a model is made of them
    model = build_model(job)
    stages = cut(model, job.plan, schedule)
    if job.mesh_plan is not None:
        job = _on_meshes(job, job.mesh_plan, model, stages)
    if job.verify:
        _check_repeatable(model)
    _check_files(job, vocabulary=values.get("vocab_size") or 1)
    _check_audit(job)
    check_kinds(job.plan, model.body)
    check_memory(job, least_bytes(job, model, stages), here=needed)
    return job


def _check_files(job: RunJob, *, vocabulary: int) -> None:
    """Check that data and checkpoints fit the run; a sample of the data is read."""
    files = job.files
    for option, names in (("--data", files.data), ("--eval-data", files.eval_data)):
        if not names:
            continue
        if job.target_length:
            raise InputError(
                rule=_("must not be given for a model with encoder and decoder, whose data are sources with targets"),
                place=option,
                remedy=_("train it from a script of your own with evenflow.run.pipeline"),
            )
        open_data(
            names, length=job.sequence_length, vocabulary=vocabulary, tokenizer=files.tokenizer, seed=job.seed,
            option=option,
        ).samples(0, 1)  # fmt: skip
    if files.resume is None:
        return
    for option, is_given in (("--verify", job.verify), ("--aa-check", job.aa_check)):
        if is_given:
            raise InputError(
                rule=_("must not be given with --resume: they begin with the first step"),
                place=option,
                remedy=_("leave one of the two out"),
            )
    least = files.first_step + LEAST_STEPS
    if job.num_steps < least:
        raise InputError(
            value=job.num_steps,
            rule=_(
                "must be at least {least}: the checkpoint has {done} steps behind it, and --steps counts them too",
                least=least,
                done=files.first_step,
            ),
            place="--steps",
        )


def _on_meshes(job: RunJob, mesh_plan: MeshPlan, model: ModelRow, stages: Sequence[StageParts]) -> RunJob:
    """Return the job with all parameters placed; raise InputError where its meshes do not fit pipeline and model."""
    check_world(job.plan, job.num_processes, mesh_plan, num_replicas=job.data_parallel)
    tokens = torch.empty(job.microbatch_size, job.input_length, dtype=torch.long, device="meta")
    boundaries = boundary_shapes(stages, model.context, tokens)
    if job.adapter_rank:
        mesh_plan = with_adapters(mesh_plan, stages)
    check_mesh_plan(mesh_plan, model, stages, [boundary.tensor for boundary in boundaries])
    return replace(job, mesh_plan=mesh_plan)


def _check_repeatable(model: ModelRow) -> None:
    """Check that the model's own forward draws the random numbers of its parts."""
    name = dropping_module(model.whole) if model.whole_logits is not None else None
    if name is not None:
        raise InputError(
            value=name,
            rule=_("must have no dropout to be verified, since the unsplit model draws other random numbers"),
            place="model",
            remedy=_("set dropout to 0, or leave --verify out"),
        )


def _check_audit(job: RunJob) -> None:
    """Check that there are steps enough for an A/A check, and that every fault has a place."""
    if job.aa_check and len({job.has_aa_checks(step) for step in range(WARM_UP_STEPS, job.num_steps)}) < 2:
        raise InputError(
            value=job.num_steps,
            rule=_(
                "must leave steps with checks and steps without check or fault after the first {warm_up_steps}",
                warm_up_steps=WARM_UP_STEPS,
            ),
            place="--steps",
            remedy=_("train for more steps"),
        )
    for fault in job.faults:
        sizes = {
            "rank": (fault.rank, 0, job.num_processes),
            "step": (fault.step + 1, 1, job.num_steps + 1),
            "microbatch": (fault.microbatch or 0, 0, job.plan.num_microbatches),
        }
        for name, (value, first, end) in sizes.items():
            if not first <= value < end:
                raise InputError(
                    value=value,
                    rule=_("must have a {name} from {first} to {last}", name=name, first=first, last=end - 1),
                    place="--inject-fault",
                )
    if len({(fault.rank, fault.step) for fault in job.faults}) < len(job.faults):
        raise InputError(rule=_("must be given at most once for a rank and step"), place="--inject-fault")
