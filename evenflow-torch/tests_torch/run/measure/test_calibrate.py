"""Calibration measures each stage for one microbatch and leaves no gradients."""

import pytest
import torch
from torch import nn

from evenflow.model import Plan
from evenflow_torch.run import pipeline
from evenflow_torch.run.measure.calibrate import calibrate

FLOAT32_BYTES = 4
WIDTH, SAMPLES = 64, 32
BATCH = (torch.ones(2 * SAMPLES, WIDTH), torch.zeros(2 * SAMPLES, WIDTH))


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize("is_split", [False, True])
def test_a_stage_is_measured_for_one_microbatch(is_split: bool) -> None:
    order = "0F0,0I0,0W0,0F1,0I1,0W1" if is_split else "0F0,0B0,0F1,0B1"
    plan = Plan(schedule="search", num_microbatches=2, layers=((2,),), order=(order,))
    model = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(2)))
    pipe = pipeline(plan, model, nn.functional.mse_loss, BATCH)
    calibration = calibrate(pipe, BATCH, pipe.loss_fn)
    (stage,) = calibration.stages
    assert all(parameter.grad is None for parameter in pipe.parameters())
    assert stage.forward_ns > 0
    assert stage.weight_ns < stage.backward_ns
    assert (stage.weight_ns > 0) == (stage.until_weight_bytes > 0) == is_split
    # Both results of tanh are kept for the backward.
    assert stage.activation_bytes >= 2 * SAMPLES * WIDTH * FLOAT32_BYTES
    assert calibration.message_bytes == calibration.message_ns == 0, "no other rank"
    assert calibration.working_bytes == stage.working_bytes
    assert calibration.by_stage("forward_ns") == {0: stage.forward_ns}
