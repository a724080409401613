"""First layers that are not trained: no gradient goes to them, and the others get those of the unsplit model."""

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from evenflow.model import Plan
from evenflow.schedule import FAMILIES
from evenflow_torch.run import pipeline
from tests.thoroughness import examples

MICROBATCHES, LAYERS, SIZE = 4, 6, 8
CHUNKS = {name: family.num_chunks or max(2, family.fewest_chunks) for name, family in FAMILIES.items()}


@pytest.fixture(scope="module")
def alone() -> Iterator[None]:
    """This process alone as a group of ranks, for all examples."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def model(frozen: int) -> nn.Sequential:
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(SIZE, SIZE), nn.Tanh()) for _layer in range(LAYERS)]
    for layer in layers[:frozen]:
        layer.requires_grad_(False)
    return nn.Sequential(*layers).double()


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("family", CHUNKS)
@given(data=st.data())
@settings(max_examples=examples(12))
def test_a_step_is_that_of_the_unsplit_model(family: str, data: st.DataObject) -> None:
    frozen = data.draw(st.integers(0, LAYERS - 1))
    inputs, targets = torch.randn(2, 2 * MICROBATCHES, SIZE, generator=torch.Generator().manual_seed(1)).double()
    cuts = sorted(data.draw(st.lists(st.integers(0, LAYERS), min_size=CHUNKS[family] - 1, max_size=CHUNKS[family] - 1)))
    counts = [end - begin for begin, end in zip([0, *cuts], [*cuts, LAYERS], strict=True)]
    layers = tuple((count,) for count in counts)
    recompute = {"full": layers} if data.draw(st.booleans()) else {}
    plan = Plan(schedule=family, num_microbatches=MICROBATCHES, layers=layers, recompute=recompute)
    whole, split = model(frozen), model(frozen)
    pipe = pipeline(plan, split, functional.mse_loss, (inputs, targets))
    for stage in pipe.stages:
        needs = not stage.is_first and frozen < sum(counts[: stage.stage_index])
        assert stage.example_input.requires_grad == needs, "a gradient comes only where something is trained before"
    for _step in range(2):
        pipe.step((inputs, targets))
        for some, wanted in zip(inputs.chunk(MICROBATCHES), targets.chunk(MICROBATCHES), strict=True):
            (functional.mse_loss(whole(some), wanted) / MICROBATCHES).backward()
        for (name, expected), actual in zip(whole.named_parameters(), split.parameters(), strict=True):
            assert (actual.grad is None) == (expected.grad is None), name
            if expected.grad is not None:
                torch.testing.assert_close(actual.grad, expected.grad, rtol=1e-12, atol=1e-14)
