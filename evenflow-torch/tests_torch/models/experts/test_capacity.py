"""What experts drop, against choices that are taken one after the other."""

from fractions import Fraction
from math import ceil

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from transformers.models.mixtral.configuration_mixtral import MixtralConfig
from transformers.models.mixtral.modeling_mixtral import MixtralExperts

from evenflow_torch.models.experts.capacity import kept_choices, limit_experts, within_capacity
from evenflow_torch.models.experts.library import as_one_operator
from tests.thoroughness import examples

Routing = tuple[list[list[int]], list[list[float]], int]


@st.composite
def routings(draw: st.DrawFn) -> Routing:
    """Different experts of each token, maybe one that is none, and weights of which some are equal."""
    experts = draw(st.integers(1, 6))
    chosen, tokens = draw(st.integers(1, experts)), draw(st.integers(1, 12))
    of_one = st.permutations(range(experts + 1)).map(lambda order: list(order[:chosen]))
    weights = st.lists(st.sampled_from([0.0, 0.125, 0.25, 0.5, 1.0]), min_size=chosen, max_size=chosen)
    return (
        draw(st.lists(of_one, min_size=tokens, max_size=tokens)),
        draw(st.lists(weights, min_size=tokens, max_size=tokens)),
        experts,
    )


FACTORS = st.integers(4, 24).map(lambda quarters: Fraction(quarters, 4))


def taken_one_by_one(routing: Routing, factor: Fraction) -> set[tuple[int, int]]:
    """The choices that are kept: those of the largest weights take their places first."""
    index, weights, experts = routing
    room = [ceil(factor * len(index) * len(index[0]) / experts)] * experts
    places = [(token, at) for token, row in enumerate(index) for at in range(len(row))]
    kept = set()
    for token, at in sorted(places, key=lambda place: -weights[place[0]][place[1]]):
        expert = index[token][at]
        if expert == experts:
            kept.add((token, at))
        elif room[expert]:
            room[expert] -= 1
            kept.add((token, at))
    return kept


@given(routings(), FACTORS, st.sampled_from([torch.bfloat16, torch.float32, torch.float64]))
@settings(max_examples=examples(150), deadline=None)
def test_an_expert_takes_the_largest_weights_up_to_its_room(
    routing: Routing, factor: Fraction, dtype: torch.dtype
) -> None:
    index, weights, experts = torch.tensor(routing[0]), torch.tensor(routing[1], dtype=dtype), routing[2]
    kept = kept_choices(index, weights, experts, float(factor))
    assert {tuple(one) for one in kept.nonzero().tolist()} == taken_one_by_one(routing, factor)
    limited = within_capacity(index, weights, experts, float(factor))
    assert torch.equal(limited, torch.where(kept, index, experts))


@given(routings(), FACTORS, FACTORS)
@settings(max_examples=examples(60), deadline=None)
def test_more_room_keeps_what_less_room_kept(routing: Routing, one: Fraction, other: Fraction) -> None:
    index, weights, experts = torch.tensor(routing[0]), torch.tensor(routing[1]), routing[2]
    less, more = (kept_choices(index, weights, experts, float(factor)) for factor in sorted((one, other)))
    assert bool((more | ~less).all())
    assert bool(kept_choices(index, weights, experts, float(experts)).all())


TOKENS, HIDDEN, EXPERTS, CHOSEN = 12, 6, 4, 2


def loop(
    module: MixtralExperts, hidden: Tensor, index: Tensor, weights: Tensor, dropped: set[tuple[int, int]]
) -> Tensor:
    """One token and one expert after the other, without the choices that are dropped."""
    results = []
    for token in range(len(hidden)):
        total = torch.zeros_like(hidden[token])
        for at, expert in enumerate(index[token].tolist()):
            if (token, at) not in dropped:
                gate, up = (module.gate_up_proj[expert] @ hidden[token]).chunk(2)
                inside = nn.functional.silu(gate) * up
                total = total + weights[token, at] * (module.down_proj[expert] @ inside)
        results.append(total)
    return torch.stack(results)


@pytest.mark.parametrize("groups", [1, 3])
def test_results_and_gradients_are_those_of_a_loop_without_what_is_dropped(groups: int) -> None:
    torch.manual_seed(2)
    config = MixtralConfig(
        hidden_size=HIDDEN, intermediate_size=10, num_local_experts=EXPERTS, num_experts_per_tok=CHOSEN
    )
    module = MixtralExperts(config).double()
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    hidden = torch.randn(TOKENS, HIDDEN, dtype=torch.float64, requires_grad=True)
    weights = torch.rand(TOKENS, CHOSEN, dtype=torch.float64).requires_grad_()
    index = torch.stack([torch.randperm(EXPERTS)[:CHOSEN] for _ in range(TOKENS)])
    index[: TOKENS // 2, 0], index[: TOKENS // 2, 1] = 0, 1  # more than there is room for
    size, kept = TOKENS // groups, set()
    for start in range(0, TOKENS, size):
        part = index[start : start + size].tolist(), weights[start : start + size].tolist(), EXPERTS
        kept |= {(start + token, at) for token, at in taken_one_by_one(part, Fraction(1))}
    dropped = {(token, at) for token in range(TOKENS) for at in range(CHOSEN)} - kept
    assert dropped
    leaves = (hidden, weights, *module.parameters())
    wanted = loop(module, hidden, index, weights, dropped)
    of_loop = torch.autograd.grad(wanted.square().sum(), leaves)
    parts = zip(index.chunk(groups), weights.chunk(groups), strict=True)
    limited = torch.cat([within_capacity(*part, EXPERTS, 1.0) for part in parts])
    with as_one_operator():
        as_operator = module(hidden, limited, weights)
    limit_experts(module, 1.0, groups)
    for result in (module(hidden, index, weights), as_operator):
        torch.testing.assert_close(result, wanted, rtol=1e-12, atol=1e-12)
        for one, other in zip(torch.autograd.grad(result.square().sum(), leaves), of_loop, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
