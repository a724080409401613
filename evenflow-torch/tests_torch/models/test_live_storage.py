"""Storages that stay alive, and the operators that make them."""

import torch

from evenflow_torch.models.live_storage import StorageLog


def test_storages_are_counted_while_they_live() -> None:
    with StorageLog() as log:
        one = torch.zeros(100)
        view = one[:10]
        two = one + 1
        del one
        assert log.storages.live_bytes == 800
        del view
        assert log.storages.live_bytes == 400
        del two
    assert (log.storages.live_bytes, log.storages.peak_bytes) == (0, 800)


def test_given_storages_have_a_number_but_no_size_and_views_are_no_operators() -> None:
    weight = torch.ones(4)
    with StorageLog([weight]) as log:
        half = weight[:2]
        assert log.storages.number(half) == log.storages.number(weight)
        half.add_(1)
        (added,) = log.operators
        assert (log.storages.live_bytes, log.storages.size_bytes(log.storages.number(weight))) == (0, 0)
    assert added.name == "aten.add_.Tensor"
    assert added.reads == added.writes == log.known


def test_what_a_graph_holds_is_alive() -> None:
    weight = torch.zeros(10, requires_grad=True)
    with StorageLog([weight]) as log:
        result = (weight * 2).exp()  # keeps its own result
        assert log.storages.live_bytes == 40
        del result
    assert log.storages.live_bytes == 0
