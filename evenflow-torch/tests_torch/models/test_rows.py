"""Rows of modules in order: which are layers, what each takes, and what is refused."""

from collections import OrderedDict

import pytest
import torch
from torch import nn

from evenflow.errors import InputError
from evenflow_torch.models.rows import as_row, is_row, row_with_inputs


def test_head_and_tail_are_the_modules_that_a_plan_does_not_count() -> None:
    row = as_row([nn.Linear(2, 2) for _ in range(5)], head_modules=1, tail_modules=2)
    assert [[part.path for part in parts] for parts in (row.head, row.body, row.tail)] == [
        ["0"],
        ["1", "2"],
        ["3", "4"],
    ]
    assert [part.position for part in row.parts] == [0, 1, 2, 3, 4]
    assert set(dict(row.whole.named_parameters())) == {f"{at}.{name}" for at in range(5) for name in ("weight", "bias")}


@pytest.mark.parametrize("as_list", [False, True])
def test_a_module_that_stands_twice_runs_twice(as_list: bool) -> None:
    activation = nn.ReLU()
    model = nn.Sequential(nn.Linear(2, 2), activation, nn.Linear(2, 2), activation)
    layers = list(model) if as_list else model
    assert [part.module for part in as_row(layers).parts] == list(model)
    assert [part.module for part in row_with_inputs(layers, torch.zeros(1, 2)).parts] == list(model)


def test_children_called_head_and_tail_are_layers_where_they_stand() -> None:
    model = nn.Sequential(OrderedDict(tail=nn.Linear(2, 3), middle=nn.Linear(3, 4), head=nn.Linear(4, 5)))
    row = row_with_inputs(model, torch.zeros(1, 2), head=nn.Linear(2, 2))
    assert [part.module for part in row.body] == list(model)
    assert [part.inputs[0].shape[-1] for part in row.parts] == [2, 2, 3, 4]


def test_each_layer_takes_what_the_one_before_hands_over() -> None:
    layers = [nn.LSTM(4, 6), nn.Linear(6, 3)]  # an LSTM gives several values, of which the first goes on
    row = row_with_inputs(layers, torch.zeros(5, 2, dtype=torch.long), head=nn.Embedding(9, 4), tail=nn.Linear(3, 1))
    assert [(*part.inputs[0].shape, part.inputs[0].dtype) for part in row.parts] == [
        (5, 2, torch.long),
        (5, 2, 4, torch.float32),
        (5, 2, 6, torch.float32),
        (5, 2, 3, torch.float32),
    ]
    assert all(part.inputs[0].is_meta for part in row.parts)
    assert [len(row.head), len(row.body), len(row.tail)] == [1, 2, 1]


def test_layers_are_left_as_they_are() -> None:
    norm = nn.BatchNorm1d(3)
    row_with_inputs([norm, nn.Linear(3, 3)], torch.ones(4, 3))
    assert int(norm.num_batches_tracked) == 0
    assert torch.equal(norm.running_mean, torch.zeros(3))


@pytest.mark.parametrize(
    ("layers", "example", "message"),
    [
        ([], torch.zeros(1, 2), "must have at least one layer"),
        ([nn.Linear(2, 3), nn.Linear(2, 2)], torch.zeros(1, 2), r"Linear\.1 must run on tensors"),
        ([nn.Linear(2, 2)], (torch.zeros(1, 2),), "example_batch must be one tensor"),
    ],
)
def test_what_makes_no_row_is_refused(layers: list[nn.Module], example: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        row_with_inputs(layers, example)


def test_a_module_of_another_kind_is_no_row() -> None:
    with pytest.raises(InputError, match=r"model must be an nn\.Sequential.*got 'Linear'"):
        as_row(nn.Linear(1, 1))
    assert not is_row(nn.Linear(1, 1))
    assert is_row([nn.ReLU()])
    assert is_row(nn.Sequential(nn.Linear(1, 1)))
    assert not is_row(nn.Sequential(nn.Linear(1, 1), nn.ReLU()))  # a layer without parameters is no stage
