"""Recorded actions lie in order on the shared clock."""

import time

import pytest
import torch
import torch.distributed as dist

from evenflow.schedule import Op
from evenflow_torch.run.measure.recorder import Recorder, clock_offset_ns

CPU = torch.device("cpu")


def test_actions_are_recorded_in_order_on_the_clock_of_rank_0() -> None:
    ahead_ns = 10**15
    recorder = Recorder(CPU, clock_offset_ns=ahead_ns)
    recorder.begin(Op.F, 9, 9)
    recorder.start_step()
    before_ns = time.perf_counter_ns() - ahead_ns
    for op, stage, microbatch in ((Op.F, 1, 0), (Op.B, 1, 0)):
        recorder.begin(op, stage, microbatch)
        recorder.end()
        recorder.end()  # of the last stage, when its loss is there
    rows = recorder.rows()
    assert [row[:3] for row in rows] == [(Op.F, 1, 0), (Op.B, 1, 0)], "what came before the step is forgotten"
    times = [before_ns, *(time_ns for *_, start, end in rows for time_ns in (start, end))]
    assert times == sorted(times)


@pytest.mark.usefixtures("one_rank")
def test_rank_0_has_the_clock() -> None:
    assert clock_offset_ns(CPU) == 0


@pytest.mark.parametrize(
    ("ahead_ns", "expected_ns"), [(0, 0), (40, 0), (10**12, 10**12 - 50), (-(10**12), -(10**12) - 50)]
)
def test_an_offset_that_an_exchange_cannot_tell_from_none_is_none(
    monkeypatch: pytest.MonkeyPatch, ahead_ns: int, expected_ns: int
) -> None:
    """Every exchange takes 100 ns to rank 0 and none back, so the middle of it is 50 ns too early."""
    now_ns = 0

    def send(buffer: torch.Tensor, dst: int) -> None:
        nonlocal now_ns
        now_ns += 100

    def receive(buffer: torch.Tensor, src: int) -> None:
        buffer.fill_(now_ns)

    monkeypatch.setattr(dist, "get_rank", lambda: 1)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(dist, "send", send)
    monkeypatch.setattr(dist, "recv", receive)
    monkeypatch.setattr(time, "perf_counter_ns", lambda: now_ns + ahead_ns)
    assert clock_offset_ns(CPU) == expected_ns
