"""Modules of every kind under every family that splits backwards: gradients, hooks and buffers of the unsplit model."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from evenflow.model import Plan
from evenflow.schedule import FAMILIES, Op, make_schedule
from evenflow_torch.run import pipeline
from tests.thoroughness import examples
from tests_torch.run.engine.split_cases import MODULES, SIZE, module

MICROBATCHES = 4
CHUNKS = {name: family.num_chunks or 2 for name, family in FAMILIES.items()}
SPLIT = [
    name
    for name, chunks in CHUNKS.items()
    if Op.W in make_schedule(name, num_ranks=1, num_chunks=chunks, num_microbatches=MICROBATCHES).ops
]


@pytest.fixture(scope="module")
def alone() -> Iterator[None]:
    """This process alone as a group of ranks, for all examples."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_eight_families_split_backwards() -> None:
    assert len(SPLIT) == 8


# Of weight gradients that do not wait, and hooks of modules whose input needs no gradient.
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("family", SPLIT)
@given(
    names=st.lists(st.sampled_from(sorted(MODULES)), min_size=1, max_size=4),
    hooks=st.booleans(),
    recompute=st.booleans(),
    seed=st.integers(min_value=0, max_value=9),
)
@settings(max_examples=examples(30))
def test_a_step_is_that_of_the_unsplit_model(
    family: str, names: Sequence[str], hooks: bool, recompute: bool, seed: int
) -> None:
    assume(not (recompute and "spectral norm" in names))  # whose every forward changes the next one
    inputs, targets = torch.randn(2, 2 * MICROBATCHES, SIZE, generator=torch.Generator().manual_seed(seed)).double()
    whole, split = (_model(names, seed) for _ in range(2))
    expected, calls = (_hooked(model) if hooks else {} for model in (whole, split))
    cells = [len(whole) // CHUNKS[family]] * CHUNKS[family]
    cells[-1] += len(whole) - sum(cells)
    layers = tuple((count,) for count in cells)
    plan = Plan(
        schedule=family,
        num_microbatches=MICROBATCHES,
        layers=layers,
        recompute={"full": layers} if recompute else {},
    )
    pipe = pipeline(plan, split, functional.mse_loss, (inputs, targets))
    for _ in range(2):
        pipe.step((inputs, targets))
        for some, wanted in zip(inputs.chunk(MICROBATCHES), targets.chunk(MICROBATCHES), strict=True):
            (functional.mse_loss(whole(some), wanted) / MICROBATCHES).backward()
        _compare(_gradients(whole), _gradients(split))
        if not recompute:  # forwards that run again change buffers again
            _compare(dict(whole.named_buffers()), dict(split.named_buffers()))
    for name, gradients in expected.items():
        assert len(calls[name]) == len(gradients), name
        for one, other in zip(gradients, calls[name], strict=True):
            torch.testing.assert_close(
                other, one, rtol=1e-12, atol=1e-14, msg=lambda text, name=name: f"{name}: {text}"
            )


def _model(names: Sequence[str], seed: int) -> nn.Sequential:
    """A plain layer, whose input needs no gradient, and then those that are named."""
    return nn.Sequential(*(module(name, seed + index) for index, name in enumerate(["linear", *names])))


def _hooked(model: nn.Module) -> dict[str, list[Any]]:
    """Hooks on all parameters, and what they are called with."""
    calls: dict[str, list[Any]] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            of_gradient, behind = calls.setdefault(f"{name}, hook", []), calls.setdefault(f"{name}, behind", [])
            parameter.register_hook(lambda gradient, calls=of_gradient: calls.append(gradient.clone()))
            parameter.register_post_accumulate_grad_hook(lambda own, calls=behind: calls.append(own.grad.clone()))
    return calls


def _gradients(model: nn.Module) -> dict[str, Any]:
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def _compare(expected: dict[str, Any], actual: dict[str, Any]) -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        if value is None:
            assert actual[name] is None, name
        else:
            torch.testing.assert_close(
                actual[name], value, rtol=1e-12, atol=1e-14, msg=lambda text, name=name: f"{name}: {text}"
            )
