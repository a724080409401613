"""What crosses between stages is what they really hand over, also under autocast; else the sender says so."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow_torch.run import pipeline
from evenflow_torch.run.engine.runtime_stage import check_output
from tests_torch.run.cases import NUM_RANKS, Answer, untroubled
from tests_torch.run.models import batch

WIDTH, VOCABULARY = 8, 24
PLAN = Plan(schedule="1f1b", num_microbatches=4, layers=((1, 2, 1),))


class Narrow(nn.Module):
    """A layer that switches autocast on by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result: torch.Tensor = self.linear(hidden)
            return result


class Output(nn.Linear):
    """Takes any type, as the last layer of the model."""

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return super().forward(hidden.float())


def model(layer: Any) -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), *(layer() for _ in range(4)), Output(WIDTH, VOCABULARY))


def loss_fn(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(output.float().flatten(0, -2), target.flatten())


def case(layer: Any, rank: int, *, autocast: bool) -> Answer:
    """The loss and the gradients of two steps under autocast, against the unsplit model; nothing is exact in bf16."""
    data = batch(PLAN.num_microbatches)
    whole = model(layer)
    pipe = pipeline(PLAN, model(layer), loss_fn, data, head_modules=1, tail_modules=1)
    losses, expected = [], []
    for _ in range(2):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            loss = pipe.step(data)
            parts = [loss_fn(whole(one), two) for one, two in zip(*(each.chunk(4) for each in data), strict=True)]
        mean = torch.stack(parts).mean()
        mean.backward()
        losses += [] if loss is None else [float(loss)]
        expected += [float(mean)]
    known = dict(whole.named_parameters())
    error = max(
        float((parameter.grad - known[name].grad).abs().max() / known[name].grad.abs().max())
        for name, parameter in pipe.named_parameters()
    )
    crossing = [str(stage.example_output.dtype) for stage in pipe.stages if not stage.is_last]
    return Answer(error=error, found=(losses, expected, crossing))


LINEAR = partial(nn.Linear, WIDTH, WIDTH)
CASES = {
    "under autocast": (partial(case, LINEAR, autocast=True), "torch.bfloat16"),
    "autocast inside": (partial(case, Narrow, autocast=False), "torch.bfloat16"),
    "without": (partial(case, LINEAR, autocast=False), "torch.float32"),
}


@pytest.fixture(scope="module")
def answers() -> dict[str, list[Answer]]:
    return untroubled({name: one for name, (one, _) in CASES.items()})


@pytest.mark.processes
@pytest.mark.parametrize("name", CASES)
def test_the_real_boundary_decides(answers: dict[str, list[Answer]], name: str) -> None:
    for rank, answer in enumerate(answers[name]):
        losses, expected, crossing = answer.found
        assert answer.error < 0.05
        assert crossing == [CASES[name][1]] * (rank < NUM_RANKS - 1)
        if rank == NUM_RANKS - 1:
            assert losses == pytest.approx(expected, rel=1e-3)


def test_another_output_than_expected_is_refused_by_its_sender() -> None:
    expected = torch.empty(2, 5, 8, device="meta")
    check_output(1, expected, torch.zeros(2, 5, 8))
    for wrong in (torch.zeros(2, 5, 8, dtype=torch.bfloat16), torch.zeros(2, 4, 8)):
        with pytest.raises(InputError, match=r"the output of stage 1 must be float32 \[2, 5, 8\], as the next stage"):
            check_output(1, expected, wrong)
