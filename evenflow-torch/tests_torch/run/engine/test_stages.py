"""Stages are cut from the model: one after the other they compute what it does."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow_torch.models.rows import as_row
from evenflow_torch.run.engine.order import runnable_order
from evenflow_torch.run.engine.stages import boundary_shapes, cut, weight_gradients
from tests.thoroughness import examples
from tests_torch.run.models import batch, llama, row, stage_modules


@settings(max_examples=examples(25))
@given(st.lists(st.integers(0, 3), min_size=4, max_size=4).filter(any), st.sampled_from(["sdpa", "eager"]))
def test_stages_one_after_the_other_are_the_model(layers: list[int], attention: str) -> None:
    plan = Plan(schedule="interleaved", num_microbatches=2, layers=(tuple(layers[:2]), tuple(layers[2:])))
    model = llama(plan.num_layers, attention=attention)
    inputs, _ = batch(1)
    expected = model(inputs).logits
    hidden: Any = inputs
    shapes = boundary_shapes(cut(as_row(model), plan, runnable_order(plan)), as_row(model).context, inputs)
    for stage, shape in zip(stage_modules(model, plan), shapes, strict=False):
        assert (hidden.shape, hidden.dtype) == (shape.tensor.shape, shape.tensor.dtype)
        hidden = stage(hidden)
    assert torch.equal(hidden, expected)


def test_a_cut_puts_head_and_tail_on_the_ends() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=1, layers=((0, 2),))
    stages = cut(as_row(row(2), head_modules=1, tail_modules=1), plan, runnable_order(plan))
    assert [[part.name for part in stage.parts] for stage in stages] == [["0"], ["1", "2", "3"]]


def test_a_plan_for_another_number_of_layers_is_refused() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=1, layers=((1, 1),))
    with pytest.raises(InputError, match="plan, layers must add up to the 4 layers of the model, got 2; plan for"):
        cut(as_row(row(2)), plan, runnable_order(plan))


def test_a_plan_with_layers_of_multi_token_prediction_is_refused() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=1, layers=((1, 3),), mtp_layers=1)
    with pytest.raises(InputError, match="the plan must have no layers of multi-token prediction"):
        cut(as_row(row(2)), plan, runnable_order(plan))


def test_only_stages_with_split_backwards_leave_weights_for_later() -> None:
    plan = Plan(schedule="search", num_microbatches=1, layers=((1, 1),), order=("0F0,0B0", "1F0,1I0,1W0"))
    stages = cut(as_row([nn.Linear(1, 1), nn.Linear(1, 1)]), plan, runnable_order(plan))
    assert [stage.splits_backward for stage in stages] == [False, True]
    assert weight_gradients(stages[0]) is None
    assert weight_gradients(stages[1]) is not None


def test_a_module_that_returns_no_tensor_is_refused() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=1, layers=((1,),))
    stages = cut(as_row([nn.LSTM(2, 2)]), plan, runnable_order(plan))
    with pytest.raises(InputError, match="model, 0 must return a tensor, or a tuple of tensors, got 'tuple'"):
        boundary_shapes(stages, None, torch.ones(1, 2))
