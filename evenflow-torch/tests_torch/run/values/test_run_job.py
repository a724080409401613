"""A job travels as JSON, and its A/A checks take turns with steps without."""

from dataclasses import replace

import msgspec
import pytest

from evenflow.aa import Direction
from evenflow.cluster.dtypes import Dtype
from evenflow_torch.run.values.aa_report import Fault
from evenflow_torch.run.values.run_job import TOLERANCES, WARM_UP_STEPS, Device, RunJob
from tests_torch.run.job.launched import job

FAULT = Fault(rank=1, step=3, direction=Direction.BACKWARD)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_a_job_comes_back_from_json(dtype: Dtype) -> None:
    asked = replace(job(2), dtype=dtype, device=Device.CUDA, faults=(FAULT,))
    assert msgspec.json.decode(msgspec.json.encode(asked), type=RunJob) == asked


def test_checks_take_turns_and_follow_faults() -> None:
    steps = range(WARM_UP_STEPS + 6)
    asked = replace(job(2), aa_check=True)
    assert [step for step in steps if asked.has_aa_checks(step)] == [3, 5, 7]
    faulty = replace(asked, faults=(Fault(rank=0, step=4),))
    assert [step for step in steps if faulty.has_aa_checks(step)] == [3, 4, 5, 7]
    assert not any(job(2).has_aa_checks(step) for step in steps)


def test_a_coarser_format_has_a_larger_tolerance() -> None:
    assert TOLERANCES[Dtype.FLOAT64] < TOLERANCES[Dtype.FLOAT32] < TOLERANCES[Dtype.BFLOAT16]
