"""The processes of ``evenflow profile`` under torchrun, which measure layers together that exchange tokens."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from evenflow.errors import InputError
from evenflow.language import _
from evenflow_torch.requests import FAKE, ProfileRequest
from evenflow_torch.run.job.rank_environment import RankEnvironment, is_started_by_torchrun, rank_environment
from evenflow_torch.verbs.torch_extra import torch_extra


def own_place(training: ProfileRequest) -> RankEnvironment | None:
    """Return which of the processes of torchrun this is; None for one that was started alone.

    Raises:
        InputError: processes that would measure nothing together.
    """
    if not is_started_by_torchrun(os.environ):
        return None
    own = rank_environment(os.environ)
    if own.num_processes == 1:
        return None
    if training.device == FAKE:
        raise InputError(
            value=training.device,
            rule=_("must be cpu or cuda under torchrun, whose processes measure together"),
            place="--device",
            remedy=_("computed times need one process: leave torchrun out"),
        )
    if training.expert_parallel != own.num_processes:
        raise InputError(
            value=training.expert_parallel,
            rule=_("must be the {count} processes of torchrun", count=own.num_processes),
            place="--expert-parallel",
        )
    return own


@contextmanager
def together(own: RankEnvironment | None, device: str) -> Iterator[None]:
    """Let collectives of the block run between the processes of torchrun."""
    if own is None:
        yield
        return
    with torch_extra(place="evenflow profile"):
        import torch
        import torch.distributed as dist
    if device == "cuda":
        torch.cuda.set_device(own.local_rank)
        dist.init_process_group("nccl", device_id=torch.device("cuda", own.local_rank))
    else:
        dist.init_process_group("gloo")
    yield
    # Not after a failure: closed connections make the others fail before this one has said why.
    dist.destroy_process_group()
