"""The meter of the CPU counts live storages."""

import torch

from evenflow_torch.run.measure.live_memory import memory_meter


def test_the_meter_counts_what_only_the_graph_holds() -> None:
    weight = torch.zeros(10, 10, dtype=torch.float64, requires_grad=True)
    with memory_meter(torch.device("cpu"), [weight]) as meter:
        assert meter.live_bytes == 800
        hidden = (torch.ones(10, 10, dtype=torch.float64) @ weight).exp()  # keeps the left factor and its own result
        assert meter.live_bytes == 800 + 2 * 800
        output = hidden.sum()
        del hidden
        assert meter.live_bytes == 800 + 2 * 800 + 8
        output.backward()
        del output
        assert meter.live_bytes == 800 + 800  # the gradient
        assert meter.peak_bytes >= 800 + 3 * 800
