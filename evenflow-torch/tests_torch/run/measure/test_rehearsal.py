"""Steps before the training: they leave nothing behind."""

import pytest
import torch
from torch import nn

from evenflow.model import Plan
from evenflow_torch.run import pipeline
from evenflow_torch.run.measure import rehearsal
from evenflow_torch.run.measure.recorder import Recorder
from evenflow_torch.run.measure.rehearsal import REHEARSALS, rehearse

PLAN = Plan(schedule="1f1b", num_microbatches=2, layers=((2,),))
BATCH = (torch.randn(8, 3, generator=torch.Generator().manual_seed(0)), torch.zeros(8, 3))


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize(("seconds", "count"), [(1000.0, REHEARSALS), (0.0, 0)])
def test_nothing_is_left_of_steps_before_the_training(
    monkeypatch: pytest.MonkeyPatch, seconds: float, count: int
) -> None:
    monkeypatch.setattr(rehearsal, "_MOST_SECONDS", seconds)
    device = torch.device("cpu")
    recorder = Recorder(device)
    model = [nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), nn.Linear(3, 3)]
    pipe = pipeline(PLAN, model, nn.functional.mse_loss, BATCH, seed=0)
    pipe.observe(recorder)
    pipe.num_steps = 7
    before = {name: value.clone() for name, value in pipe.state_dict().items()}
    lengths = rehearse(pipe, recorder, lambda: pipe.step(BATCH), device)
    assert len(lengths) == count
    assert all(length > 0 for length in lengths)
    assert pipe.num_steps == 7
    assert all(parameter.grad is None for parameter in pipe.parameters())
    after = pipe.state_dict()
    assert "0.1.running_mean" in before
    assert all(torch.equal(after[name], value) for name, value in before.items())
