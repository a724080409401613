"""What does not fit is refused before any stage is built, and on one rank the pipeline is the model."""

import re
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

import evenflow
from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow_torch.run import pipeline
from evenflow_torch.run.assembly.build import microbatch_of
from tests.paths import ROOT

PLAN = Plan(schedule="1f1b", num_microbatches=4, layers=((2,),))
BATCH = (torch.ones(8, 3), torch.zeros(8, 3))


def model() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))


@pytest.mark.parametrize("size", [0, 3, 7])
def test_a_batch_that_microbatches_do_not_divide_is_refused(size: int) -> None:
    with pytest.raises(InputError, match=rf"the plan's 4 microbatches divide, got {size}; use a multiple of 4"):
        microbatch_of(torch.zeros(size, 2), PLAN, place="example batch")
    assert microbatch_of(torch.zeros(8, 2), PLAN, place="example batch").shape == (2, 2)


def test_processes_must_be_initialised_first() -> None:
    assert not dist.is_initialized()
    with pytest.raises(InputError, match=r"^torch.distributed must be initialised first; .*init_process_group$"):
        pipeline(PLAN, model(), nn.functional.mse_loss, BATCH)


@pytest.mark.usefixtures("one_rank")
def test_one_rank_computes_what_the_model_does() -> None:
    pipe = pipeline(PLAN, model(), nn.functional.mse_loss, BATCH)
    loss = pipe.step(BATCH)
    alone = model()
    expected = nn.functional.mse_loss(alone(BATCH[0]), BATCH[1])
    expected.backward()
    assert float(loss) == pytest.approx(float(expected.detach()))
    for name, parameter in pipe.named_parameters():
        torch.testing.assert_close(parameter.grad, alone.get_parameter(name).grad)
    for fewer in ((BATCH[0][:3], BATCH[1][:3]), (BATCH[0], BATCH[1][:4])):
        with pytest.raises(
            InputError, match=r"batch must have the same number of samples .* the plan's 4 microbatches"
        ):
            pipe.step(fewer)


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize(
    ("batch", "value"),
    [
        ({"input_ids": BATCH[0], "labels": BATCH[1]}, "'dict'"),
        (((BATCH[0], BATCH[0]), BATCH[1]), r"'tuple\(tuple, Tensor\)'"),
        (BATCH[0], "'Tensor'"),
        ((*BATCH, BATCH[0]), r"'tuple\(Tensor, Tensor, Tensor\)'"),
        ([BATCH[0], None], r"'list\(Tensor, NoneType\)'"),
    ],
)
def test_a_batch_is_inputs_and_targets(batch: Any, value: str) -> None:
    with pytest.raises(InputError, match=rf"example batch must be inputs and targets: .*, got {value}; for"):
        pipeline(PLAN, model(), nn.functional.mse_loss, batch)
    pipe = pipeline(PLAN, model(), nn.functional.mse_loss, BATCH)
    with pytest.raises(InputError, match=rf"batch must be inputs and targets: .*, got {value}; for"):
        pipe.step(batch)


@pytest.mark.usefixtures("one_rank")
def test_a_model_without_storage_is_refused() -> None:
    with pytest.raises(InputError, match=r"model must have storage .* got '0.weight on the meta device'; materialise"):
        pipeline(PLAN, model().to("meta"), nn.functional.mse_loss, BATCH)


@pytest.mark.usefixtures("one_rank")
def test_another_number_of_ranks_is_refused() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=((1, 1),))
    with pytest.raises(InputError, match="world size must be 2, one process per rank, got 1"):
        pipeline(plan, model(), nn.functional.mse_loss, BATCH)


class Own(nn.Module):
    """A model that is no row by itself: its blocks take a mask too."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return self.linear(hidden) * mask

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Linear(3, 3)
        self.blocks = nn.ModuleList(self.Block() for _ in range(2))
        self.output = nn.Linear(3, 3)

    def mask(self, length: int) -> torch.Tensor:
        return torch.arange(length) % 2

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(hidden)
        for block in self.blocks:
            hidden = block(hidden, mask=self.mask(hidden.shape[1]))
        return self.output(hidden)


@pytest.mark.usefixtures("one_rank")
def test_the_documented_row_of_an_own_model_trains_as_the_model() -> None:
    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "ModelRow" in block)
    torch.manual_seed(2)
    made, alone = Own(), Own()
    alone.load_state_dict(made.state_dict())
    scope: dict[str, Any] = {
        "evenflow": evenflow, "model": made, "plan": PLAN, "loss_fn": nn.functional.mse_loss, "example_batch": BATCH
    }  # fmt: skip
    exec(code, scope)
    pipe = scope["pipe"]
    loss, expected = pipe.step(BATCH), nn.functional.mse_loss(alone(BATCH[0]), BATCH[1])
    expected.backward()
    torch.testing.assert_close(loss, expected.detach())
    assert set(pipe.state_dict()) == set(alone.state_dict())
    for name, parameter in pipe.named_parameters():
        torch.testing.assert_close(parameter.grad, alone.get_parameter(name).grad)


class Switched(nn.Module):
    """A model that takes a number beside tensors, and counts what nobody uses."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))

    def forward(self, hidden: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        for layer in self.layers:
            hidden = layer(hidden) * scale
        return hidden


@pytest.mark.usefixtures("one_rank")
def test_what_was_traced_is_what_batches_must_have() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=((2,),))
    inputs = {"hidden": BATCH[0], "scale": 2.0}
    pipe = pipeline(plan, Switched(), nn.functional.mse_loss, (inputs, BATCH[1]))
    assert pipe.step((inputs, BATCH[1])) is not None
    for wrong, message in (
        ({**inputs, "scale": 3.0}, r"batch, values that are no tensors must be those that .* got \[3.0\]"),
        ({"hidden": BATCH[0]}, "batch must have the form of the example: hidden"),
    ):
        with pytest.raises(InputError, match=message):
            pipe.step((wrong, BATCH[1]))
    three = Plan(schedule="1f1b", num_microbatches=4, layers=((3,),))
    with pytest.raises(InputError, match=r"plan, layers must be a number of layers that the model can be cut into"):
        pipeline(three, Switched(), nn.functional.mse_loss, (inputs, BATCH[1]))
    with pytest.raises(InputError, match="head_modules must be left out for a module that is cut by its operators"):
        pipeline(plan, Switched(), nn.functional.mse_loss, (inputs, BATCH[1]), head_modules=1)


@pytest.mark.usefixtures("one_rank")
def test_a_model_returns_one_number_where_there_is_no_loss_function() -> None:
    pipe = pipeline(Plan(schedule="1f1b", num_microbatches=4, layers=((2,),)), Switched(), None, {"hidden": BATCH[0]})
    with pytest.raises(InputError, match="result of the model must be a single number"):
        pipe.step({"hidden": BATCH[0]})
