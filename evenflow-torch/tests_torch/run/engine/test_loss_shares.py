"""Losses of microbatches add up to the loss of the step, over all replicas."""

from collections.abc import Callable, Sequence

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from evenflow_torch.run.engine.loss_shares import LossWeight, loss_shares
from tests.thoroughness import examples

PADDING = -1


def shares_of(parts: Sequence[Tensor], weight: LossWeight | None, total: Callable[[Tensor], Tensor]) -> Tensor:
    return loss_shares([len(part) for part in parts], parts, weight, total, torch.device("cpu"))


def added_up(replicas: list[Tensor], num_microbatches: int, *, by_weight: bool) -> Tensor:
    """The loss of all replicas from those of their microbatches; a sample's loss is its target."""

    def weight(part: Tensor) -> Tensor:
        return (part != PADDING).sum()

    def counted(targets: Tensor) -> Tensor:
        return weight(targets) if by_weight else torch.tensor(float(len(targets)))

    total = torch.stack([counted(targets) for targets in replicas]).sum()
    losses = []
    for targets in replicas:
        parts = targets.tensor_split(num_microbatches)
        shares = shares_of(parts, weight if by_weight else None, lambda _own: total)
        for share, part in zip(shares, parts, strict=True):
            kept = part[part != PADDING] if by_weight else part
            losses.append(share * (kept.sum() if by_weight else kept.mean()))
    return torch.stack(losses).sum()


@settings(max_examples=examples(60))
@given(st.lists(st.lists(st.integers(PADDING, 9), min_size=5, max_size=12), min_size=1, max_size=3), st.integers(1, 5))
def test_shares_make_the_mean_over_all_samples_or_all_that_counts(rows: list[list[int]], microbatches: int) -> None:
    replicas = [torch.tensor(row, dtype=torch.float64) for row in rows]
    every = torch.cat(replicas)
    torch.testing.assert_close(added_up(replicas, microbatches, by_weight=False), every.mean())
    counted = every[every != PADDING]
    expected = counted.mean() if len(counted) else torch.tensor(0.0, dtype=torch.float64)
    torch.testing.assert_close(added_up(replicas, microbatches, by_weight=True), expected)


def test_a_microbatch_that_counts_nothing_has_finite_gradients() -> None:
    logits = torch.randn(4, 3, requires_grad=True)
    targets = torch.tensor([PADDING, PADDING, 1, 2])
    shares = shares_of(targets.chunk(2), lambda part: (part != PADDING).sum(), lambda own: own)
    losses = [
        functional.cross_entropy(output, target, ignore_index=PADDING, reduction="sum")
        for output, target in zip(logits.chunk(2), targets.chunk(2), strict=True)
    ]
    loss = (torch.stack(losses) * shares).sum()
    loss.backward()
    whole = logits.detach().requires_grad_()
    expected = functional.cross_entropy(whole, targets, ignore_index=PADDING)
    expected.backward()
    torch.testing.assert_close(logits.grad, whole.grad)
    torch.testing.assert_close(loss.float(), expected)
