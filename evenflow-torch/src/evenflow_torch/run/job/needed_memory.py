"""The least memory that a job can need, before any process starts, so that sizes no machine can hold are refused."""

import os
from collections.abc import Iterator, Sequence

import torch

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.units import megabytes
from evenflow_torch.models.parts import ModelRow
from evenflow_torch.run.engine.stages import StageParts
from evenflow_torch.run.values.run_job import Device, RunJob

_COPIES = 4
"""Tensors of a parameter's shape: itself, its gradient and two moments."""
_TOKEN_BYTES = 8


def least_bytes(job: RunJob, model: ModelRow, stages: Sequence[StageParts]) -> list[int]:
    """Return the bytes that each rank of the pipeline needs at least, whatever it recomputes.

    They are parameters with gradients and moments, the tokens of a batch, the input of each of its parts for one
    microbatch, and on the last rank the logits with their gradient. With several devices on a rank, or replicas, all
    have them together at least.
    """
    config, item = model.whole.config, job.dtype.item_bytes
    tokens = job.microbatch_size * job.input_length
    needed = [tokens * job.plan.num_microbatches * _TOKEN_BYTES] * job.plan.num_ranks
    for stage in stages:
        for part in stage.parts:
            shapes = sum(parameter.numel() for parameter in part.module.parameters())
            needed[stage.rank] += _COPIES * shapes * item + tokens * config.hidden_size * item
    needed[stages[-1].rank] += 2 * tokens * config.vocab_size * item
    if job.verify:
        needed[0] += _COPIES * model.num_parameters * item
    return needed


def least_bytes_of_sizes(job: RunJob, *, vocabulary: int, hidden: int) -> list[int]:
    """Return the part of `least_bytes` that follows from sizes alone, so that no huge model has to be built."""
    tokens, item = job.microbatch_size * job.input_length, job.dtype.item_bytes
    needed = [tokens * job.plan.num_microbatches * _TOKEN_BYTES] * job.plan.num_ranks
    needed[0] += _COPIES * vocabulary * hidden * item
    needed[-1] += 2 * tokens * vocabulary * item
    return needed


def check_memory(job: RunJob, needed: Sequence[int], *, here: int) -> None:
    """Raise InputError where ranks need more memory than there is, `here` of the processes being on this machine.

    On a GPU, each rank must fit its own; on the CPU, all ranks here share what there is.
    """
    needed = list(_by_process(job, needed))
    if job.device is Device.CUDA:
        room, least = torch.cuda.get_device_properties(0).total_memory, max(needed)
        rule = _("must be at most the {room:,.0f} MB that each GPU has", room=megabytes(room))
    else:
        room, least = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), sum(sorted(needed)[:here])
        rule = _("must be at most the {room:,.0f} MB of this machine, for all of its ranks", room=megabytes(room))
    if least > room:
        raise InputError(
            value=f"{megabytes(least):,.0f} MB",
            rule=rule,
            place=_("the memory that this run needs at least"),
            remedy=_("use a smaller model, sequence or microbatch, or more machines"),
        )


def _by_process(job: RunJob, needed: Sequence[int]) -> Iterator[int]:
    """Yield the bytes of every process, where those of a rank share what it needs."""
    for rank, processes in enumerate(job.processes_of_rank):
        yield from [needed[rank] // len(processes)] * len(processes)
