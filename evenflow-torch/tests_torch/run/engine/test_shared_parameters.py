"""Shared parameters of one rank are one parameter; gradients of a step are added to earlier ones once."""

import pytest
import torch
import torch.distributed as dist
from torch import nn

from evenflow.model import Plan
from evenflow.schedule import schedule_of
from evenflow_torch.models.rows import as_row
from evenflow_torch.run.engine.shared_parameters import SharedParameters, names_of, parameter_of, share
from evenflow_torch.run.engine.stages import cut

PLAN = Plan(schedule="1f1b", num_microbatches=1, layers=((2,),))


def test_shared_names_become_one_parameter_again() -> None:
    first, last = nn.Linear(2, 2), nn.Linear(2, 2)
    row = as_row([first, last])
    names = [name for part in row.parts for name in names_of(part)]
    assert names == ["0.weight", "0.bias", "1.weight", "1.bias"]
    share([("0.weight", "1.weight")], {name: part for part in row.parts for name in names_of(part)})
    assert first.weight is last.weight
    assert first.bias is not last.bias
    assert parameter_of("1.weight", row.parts[1]) is first.weight


@pytest.mark.usefixtures("one_rank")
def test_on_one_rank_there_is_nothing_to_sum() -> None:
    first, last = nn.Linear(2, 2), nn.Linear(2, 2)
    stages = cut(as_row([first, last]), PLAN, schedule_of(PLAN))
    assert dist.group.WORLD is not None
    shared = SharedParameters([("0.weight", "1.weight")], stages, 0, dist.group.WORLD)
    first.weight.grad = torch.ones(2, 2)
    shared.before_step()
    shared.after_step()
    assert first.weight is last.weight
    assert torch.equal(first.weight.grad, torch.ones(2, 2))
    assert shared.updated(first.weight) is first.weight
