"""The runtime's own time is measured beside stages that wait."""

import pytest
import torch

from evenflow_torch.run.measure.overhead import measure_overhead


@pytest.mark.usefixtures("one_rank")
def test_one_rank_has_actions_and_no_messages() -> None:
    overhead = measure_overhead(torch.empty(1, 4, device="meta", requires_grad=True), torch.device("cpu"))
    assert overhead.action_ns > 0
    assert overhead.send_ns == overhead.receive_ns == 0
