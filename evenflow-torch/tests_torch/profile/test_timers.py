"""Where times come from, and what cannot be timed."""

import pytest
import torch

from evenflow.errors import InputError
from evenflow_torch.models.part_trace import trace
from evenflow_torch.profile.timers import timer
from tests_torch.models.layers import gpt_part


def test_times_of_an_accelerator_scale_with_the_efficiency() -> None:
    part = gpt_part(width=256, heads=2, sequence=64)
    traces = {"none": trace(part, "none")}
    full, half = (timer(device="fake", accelerator="a100", efficiency=share) for share in (1.0, 0.5))
    assert full.times(part, traces).forward_ns <= half.times(part, traces).forward_ns
    assert "50 % of 312 TFLOPS bfloat16" in half.origin


def test_a_device_measures() -> None:
    part = gpt_part(width=16, heads=2, sequence=8, dtype=torch.float32)
    found = timer(device="cpu")
    assert found.times(part, {"none": trace(part, "none")}).spread is not None
    assert found.origin == "times are measured on cpu, the median of 7"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "fake"}, "accelerator must be given"),
        ({"device": "fake", "accelerator": "abacus"}, "must be one of v100-16"),
        ({"device": "fake", "accelerator": "a100", "efficiency": 1.5}, "efficiency must be a share above 0"),
        ({"device": "tpu"}, "device must be one of fake, cpu, cuda"),
    ],
)
def test_what_gives_no_times_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        timer(**options)
