"""Hooks run behind their action, and only behind actions of their own rank."""

import pytest
import torch
from torch import nn

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.schedule import Action
from evenflow_torch.run import Hook, pipeline

PLAN = Plan(schedule="1f1b", num_microbatches=2, layers=((1,),))
BATCH = (torch.ones(2, 1), torch.zeros(2, 1))


@pytest.mark.usefixtures("one_rank")
def test_hooks_that_are_added_later_run_beside_the_first() -> None:
    pipe = pipeline(PLAN, nn.Sequential(nn.Linear(1, 1)), nn.functional.mse_loss, BATCH)
    seen: list[str] = []
    pipe.add_hooks([Hook(after=Action.parse("0F1"), run=lambda _: seen.append("0F1"))])
    pipe.add_hooks([Hook(after=Action.parse("0F0"), run=lambda _: seen.append("0F0"))])
    pipe.step(BATCH)
    assert seen == ["0F0", "0F1"]


@pytest.mark.usefixtures("one_rank")
def test_a_hook_behind_an_action_of_another_rank_is_refused() -> None:
    pipe = pipeline(PLAN, nn.Sequential(nn.Linear(1, 1)), nn.functional.mse_loss, BATCH)
    with pytest.raises(InputError, match="hooks must follow actions of their own rank, got '1F0'"):
        pipe.add_hooks([Hook(after=Action.parse("1F0"), run=lambda _: None)])
