"""One rank trains in this process as many do; devices of one rank are put together."""

from dataclasses import replace
from typing import Any

import pytest
import torch.distributed as dist

from evenflow.cluster.dtypes import Dtype
from evenflow_torch.run.job.launch import _free_port
from evenflow_torch.run.job.rank_environment import RankEnvironment
from evenflow_torch.run.job.worker import by_rank, train
from evenflow_torch.run.values.run_job import Device
from evenflow_torch.run.values.run_result import RankResult, StepReport
from tests_torch.run.job.launched import job


def test_one_rank_trains_in_its_own_order_and_agrees_with_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    own = RankEnvironment(rank=0, num_processes=1, local_rank=0, num_local=1, address="127.0.0.1", port=_free_port())
    for name, value in own.variables().items():
        monkeypatch.setenv(name, value)
    plan = replace(job(1).plan, schedule="search", order=("0F0,0F1,0I1,0B0,0W1",))
    sizes: dict[str, Any] = {"hidden_size": 16, "num_heads": 2, "vocab_size": 32, "learning_rate": 0.01}
    asked = replace(job(1), plan=plan, num_steps=4, dtype=Dtype.FLOAT64, verify=True, device=Device.CPU, **sizes)
    steps: list[Any] = []
    result = train(asked, steps.append)
    assert not dist.is_initialized()
    assert result is not None
    assert [step.step for step in steps if isinstance(step, StepReport)] == [0, 1, 2, 3]
    assert result.losses[-1] < result.losses[0]
    assert result.verification is not None
    assert result.verification.agrees
    (rank,) = result.ranks
    assert len(rank.actions) == 2, "after two steps to warm up"
    assert [row[:3] for row in rank.actions[0]] == [(0, 0, 0), (0, 0, 1), (2, 0, 1), (1, 0, 0), (3, 0, 1)]
    assert rank.peak_bytes >= 4 * 8 * result.num_parameters, "parameters, gradients and two moments"


def test_a_rank_has_the_actions_of_its_first_device_and_the_memory_of_its_fullest() -> None:
    def device(number: int) -> RankResult:
        return RankResult(
            forward_ns={0: number}, backward_ns={}, weight_ns={}, activation_bytes={}, until_weight_bytes={},
            static_bytes=10 - number, working_bytes=2 * number, peak_bytes=number, actions=[],
        )  # fmt: skip

    first, second = by_rank([device(number) for number in range(3)], ((2, 0), (1,)))
    assert (first.forward_ns, first.static_bytes, first.peak_bytes) == ({0: 2}, 10, 2)
    assert first.working_bytes == 4
    assert second == device(1)
    assert by_rank([device(0)], ((0,),)) == [device(0)]
