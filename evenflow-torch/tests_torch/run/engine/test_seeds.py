"""Random numbers with a seed leave the others as they were."""

import torch

from evenflow_torch.run.engine.seeds import seeded


def test_random_numbers_outside_a_seeded_block_go_on() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    first = torch.rand(1)
    with seeded(9, torch.device("cpu")):
        inside = torch.rand(1)
    with seeded(9, torch.device("cpu")):
        assert torch.equal(torch.rand(1), inside)
    assert torch.equal(torch.cat((first, torch.rand(1))), expected)
