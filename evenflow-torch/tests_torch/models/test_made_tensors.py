"""Copies of modules with other tensors."""

import pytest
import torch
from torch import nn

from evenflow_torch.models.made_tensors import copy_with, make_empty, maker_of_values


def test_a_copy_keeps_types_ties_and_frozen_parameters_and_never_the_originals() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.BatchNorm1d(2)).bfloat16()
    module[1].weight = module[0].weight
    module[1].bias.requires_grad_(False)
    with torch.device("meta"):
        on_meta = copy_with(module, lambda like: torch.empty_like(like, device="meta"))
    for copy in (on_meta, copy_with(module, make_empty)):
        assert copy[1].weight is copy[0].weight is not module[0].weight
        assert not copy[1].bias.requires_grad
        assert [tensor.dtype for tensor in copy.buffers()] == [tensor.dtype for tensor in module.buffers()]
    assert all(tensor.is_meta for tensor in (*on_meta.parameters(), *on_meta.buffers()))


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_copy_of_what_a_module_has_made_of_its_parameters() -> None:
    module = nn.utils.weight_norm(nn.Linear(2, 2))
    copy = copy_with(module, make_empty)
    assert not module.weight.is_leaf
    assert copy.weight is not module.weight
    assert copy(torch.ones(1, 2)).shape == (1, 2)


def test_made_up_values_are_valid_inputs() -> None:
    make = maker_of_values(torch.device("cpu"), index_limit=3)
    indices = make(torch.empty(4, 2, dtype=torch.long, device="meta"))
    assert indices.shape == (4, 2)
    assert set(indices.flatten().tolist()) == {0, 1, 2}
    assert make(torch.empty(2, dtype=torch.bool, device="meta")).all()
    assert make(torch.empty(64, dtype=torch.bfloat16, device="meta")).isfinite().all()
