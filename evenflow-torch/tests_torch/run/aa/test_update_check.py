"""Updates done again: all parameters within the stated turns, equal bits for torch's optimizers, nothing changed."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from evenflow_torch.run.aa.bits import flip_bit
from evenflow_torch.run.aa.update_check import UPDATE_STEPS, UpdateCheck, update_slices


@given(st.lists(st.integers(0, 10**9), max_size=60))
def test_every_parameter_has_its_turn_and_turns_are_about_alike(sizes: list[int]) -> None:
    slices = update_slices(sizes)
    assert len(slices) <= UPDATE_STEPS
    assert sorted(index for one in slices for index in one) == list(range(len(sizes)))
    assert all(slices)
    sums = [sum(max(1, sizes[index]) for index in one) for one in slices]
    assert max(sums, default=0) - min(sums, default=0) <= max((max(1, size) for size in sizes), default=0)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (torch.optim.AdamW, {"lr": 0.1, "amsgrad": True}),
        (torch.optim.Adam, {"lr": 0.1, "foreach": True}),
        (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
        (torch.optim.Adafactor, {"lr": 0.1}),
        (torch.optim.NAdam, {"lr": 0.1}),
    ],
)
def test_an_update_that_is_done_again_is_the_same_and_changes_nothing(kind: Any, options: dict[str, Any]) -> None:
    torch.manual_seed(1)
    models = [nn.Linear(5, 3), nn.Linear(5, 3)]
    models[1].load_state_dict(models[0].state_dict())
    checked, plain = (kind([{"params": [one.weight]}, {"params": [one.bias], "lr": 0.2}], **options) for one in models)
    for step in range(3):
        for model in models:
            model.zero_grad()
            model(torch.full((2, 5), float(step))).square().sum().backward()
        again = UpdateCheck(checked, list(models[0].named_parameters()))
        checked.step()
        plain.step()
        assert {name: int(count) for name, count in again.compare() if count} == {}
        for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
            assert torch.equal(one, other)


def test_a_flipped_bit_of_a_parameter_or_of_its_state_is_seen() -> None:
    model = nn.Linear(5, 3)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2, 5)).sum().backward()
    optimizer.step()
    again = UpdateCheck(optimizer, [("bias", model.bias)])
    optimizer.step()
    flip_bit(model.bias)
    flip_bit(optimizer.state[model.bias]["exp_avg_sq"])
    assert [name for name, count in again.compare() if count] == ["bias", "bias, exp_avg_sq"]
