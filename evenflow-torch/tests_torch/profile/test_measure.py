"""Times of a part on a real device."""

import pytest
import torch

from evenflow.errors import InputError
from evenflow_torch.profile.measure import measure
from tests_torch.models.layers import gpt_part

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=[needs_cuda, pytest.mark.gpu])])
def test_measured_times_hold_together(device: str) -> None:
    part = gpt_part(width=64, heads=2, sequence=64, dtype=torch.float32)
    times = measure(part, ["none", "comm", "full"], device=torch.device(device))
    plain_ns = times.backward_ns["none"]
    assert times.forward_ns > 0
    assert 0 <= times.weight_ns <= plain_ns
    assert all(time_ns >= plain_ns for time_ns in times.backward_ns.values())
    assert times.spread is not None
    assert times.spread >= 0


def test_a_part_that_does_not_run_is_one_message() -> None:
    part = gpt_part(width=6, heads=4, sequence=4, dtype=torch.float32)  # heads do not divide the width
    with pytest.raises(InputError, match="gpt must run forward and backward on cpu"):
        measure(part, ["none"], device=torch.device("cpu"))
