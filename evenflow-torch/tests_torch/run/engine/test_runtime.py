"""The runtime executes an order: losses by microbatch, gradients that accumulate, actions that are observed."""

from typing import Any, cast

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from evenflow.model import Plan
from evenflow.schedule import Action, Op
from evenflow_torch.run import Hook, Pipeline, pipeline
from evenflow_torch.run.engine.runtime import Runtime
from evenflow_torch.run.measure.recorder import Recorder

ORDER = "0F1,0F0,0I1,0B0,0W1"
PLAN = Plan(schedule="search", num_microbatches=2, layers=((1,),), order=(ORDER,))
BATCH = (torch.tensor([[1.0], [2.0]]), torch.tensor([[0.0], [1.0]]))


def made() -> Pipeline:
    layer = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        layer.weight.fill_(3.0)
    return pipeline(PLAN, nn.Sequential(layer), nn.functional.mse_loss, BATCH)


@pytest.mark.usefixtures("one_rank")
def test_losses_are_kept_by_microbatch_in_any_order() -> None:
    pipe = made()
    seen: list[tuple[float, ...]] = []

    def repeat(runtime: Runtime) -> None:
        for microbatch, output in ((0, 3.0), (1, 7.0)):
            seen.append(tuple(map(float, runtime.repeat_loss(microbatch, torch.tensor([[output]])))))

    pipe.add_hooks([Hook(after=Action.parse("0F0"), run=repeat)])
    assert float(pipe.step(BATCH)) == (3.0**2 + 5.0**2) / 2
    assert seen == [(9.0, 9.0), (25.0, 36.0)], "what it was, and what it is for another output"


@pytest.mark.usefixtures("one_rank")
def test_gradients_are_those_of_the_mean_loss_and_add_up_over_steps() -> None:
    pipe = made()
    expected = (2 * 3.0 * 1.0 + 2 * 5.0 * 2.0) / 2
    for step in (1, 2):
        pipe.step(BATCH)
        (weight,) = pipe.parameters()
        assert weight.grad is not None
        assert weight.grad.item() == pytest.approx(step * expected)


@pytest.mark.usefixtures("one_rank")
def test_actions_are_observed_in_the_order_of_the_plan() -> None:
    pipe = made()
    recorder = Recorder(torch.device("cpu"))
    pipe.observe(recorder)
    recorder.start_step()
    pipe.step(BATCH)
    assert ",".join(f"{stage}{Op(op).name}{unit}" for op, stage, unit, *_ in recorder.rows()) == ORDER


class Failing(torch.autograd.Function):
    """Raises in a forward or a backward."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, where: str) -> torch.Tensor:
        ctx.where = where
        if where == "forward" and not isinstance(value, FakeTensor):
            raise KeyError(where) from OSError("of the model itself")
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        if ctx.where == "backward":
            raise KeyError(ctx.where)
        return gradients[0], None


class FailingLayer(nn.Module):
    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where
        self.linear = nn.Linear(1, 1)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return cast("torch.Tensor", Failing.apply(self.linear(value), self.where))  # type: ignore[no-untyped-call]


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize(
    ("where", "place"),
    [
        ("forward", "in the forward of microbatch 0 of stage 0"),
        ("backward", "in the backward of microbatch 0 of stage 0"),
        ("loss", "in the loss of microbatch 0 of stage 0"),
    ],
)
def test_an_exception_comes_as_the_model_raised_it_with_its_place(
    where: str, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    def loss_fn(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        if where == "loss":
            raise KeyError(where)
        return nn.functional.mse_loss(output, target)

    plan = Plan(schedule="1f1b", num_microbatches=2, layers=((1,),))
    pipe = pipeline(plan, nn.Sequential(FailingLayer(where)), loss_fn, BATCH)
    with pytest.raises(KeyError, match=where) as caught:
        pipe.step(BATCH)
    assert caught.value.__notes__ == [f"rank 0, {place}"]
    assert isinstance(caught.value.__cause__, OSError) == (where == "forward")
    assert not caplog.records, "the schedule of all ranks is not written"
