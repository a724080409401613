"""What a stage gives back, and when it keeps the graph of a backward."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn

from evenflow.model import Plan
from evenflow.schedule import Op
from evenflow_torch.run import pipeline
from evenflow_torch.run.engine.runtime_stage import RuntimeStage, take_gradient

PLAN = Plan(schedule="1f1b", num_microbatches=2, layers=((1,),))
BATCH = (torch.ones(2, 1), torch.zeros(2, 1))


def test_a_gradient_is_taken_once() -> None:
    leaf = torch.ones(1, requires_grad=True)
    (2 * leaf).backward()
    assert take_gradient(leaf) == 2
    assert leaf.grad is None
    assert take_gradient(leaf) is None


class KeepingWitness:
    """Runs every backward once more on the graph that was kept."""

    def __init__(self) -> None:
        self.seen: list[tuple[Op, int]] = []

    @contextmanager
    def computing(self, op: Op, stage: RuntimeStage, microbatch: int, loss: Tensor | None = None) -> Iterator[None]:
        self.seen.append((op, microbatch))
        stage.keeps_graph = op is Op.B
        yield
        if loss is not None:
            torch.autograd.backward(loss)
            stage.keeps_graph = False


@pytest.mark.usefixtures("one_rank")
def test_a_witness_sees_every_action_and_may_keep_the_graph() -> None:
    pipe = pipeline(PLAN, nn.Sequential(nn.Linear(1, 1)), nn.functional.mse_loss, BATCH)
    plain = dict(pipe.named_parameters())
    pipe.step(BATCH)
    once = {name: parameter.grad.clone() for name, parameter in plain.items() if parameter.grad is not None}
    (stage,) = pipe.stages
    stage.witness = witness = KeepingWitness()
    pipe.step(BATCH)
    assert witness.seen == [(Op.F, 0), (Op.B, 0), (Op.F, 1), (Op.B, 1)]
    for name, parameter in plain.items():
        torch.testing.assert_close(parameter.grad, 3 * once[name])
