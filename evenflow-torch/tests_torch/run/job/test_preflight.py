"""A job that cannot be run is refused before any process starts."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from evenflow.errors import InputError
from evenflow_torch.run.job.preflight import checked
from evenflow_torch.run.values.aa_report import Fault
from evenflow_torch.run.values.run_job import Device
from tests_torch.run.job.launched import job

JOB = replace(job(2), num_steps=9)
ORDERED = replace(JOB.plan, schedule="search", order=("0F0,0B0,0F1,0B1", "1F0,1B0,1F1,1B1"))
STUCK = replace(ORDERED, order=("0F0,0B0,0F1,0B1", "1F0,1F1,1B0,1B1"))


def test_the_device_is_filled_in() -> None:
    assert checked(replace(JOB, device=None)).device is (Device.CUDA if torch.cuda.device_count() >= 2 else Device.CPU)
    assert checked(replace(JOB, plan=ORDERED)).plan.order == ORDERED.order


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"plan": STUCK}, "must let every action start|wait"),
        ({"num_layers": 3}, "must add up to the 3 layers"),
        ({"aa_check": True, "num_steps": 3}, "--steps must leave steps with checks and steps without"),
        ({"aa_check": True, "faults": (Fault(rank=2, step=3),)}, "--inject-fault must have a rank from 0 to 1, got 2"),
        ({"aa_check": True, "faults": (Fault(rank=1, step=3),) * 2}, "at most once for a rank and step"),
    ],
)
def test_what_cannot_be_run_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        checked(replace(JOB, **changes))


@pytest.mark.parametrize(
    ("changes", "least_mb"),
    [({"sequence_length": 10**9}, 10**4), ({"vocab_size": 10**12}, 10**8), ({"sequence_length": 10**15}, 10**9)],
)
def test_sizes_beyond_what_a_model_can_be_built_with_are_refused_by_their_memory(
    changes: dict[str, int], least_mb: int
) -> None:
    with pytest.raises(InputError, match="the memory that this run needs at least must be at most the") as caught:
        checked(replace(JOB, **changes))
    assert int(str(caught.value.value).split()[0].replace(",", "")) > least_mb


@pytest.mark.skipif(torch.cuda.device_count() > 1, reason="wants GPUs that are not there")
def test_gpus_that_are_not_there_are_refused() -> None:
    with pytest.raises(InputError, match="--device must not be cuda where ranks have no GPU"):
        checked(replace(JOB, device=Device.CUDA))


def test_another_number_of_processes_is_refused() -> None:
    with pytest.raises(InputError, match="world size must be 2, one process per rank, got 4"):
        checked(JOB, num_processes=4, num_local=4)
