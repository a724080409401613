"""What the next rank needs to do a layer again."""

import torch
from torch import nn

from evenflow_torch.run.aa.bits import checksum
from evenflow_torch.run.aa.neighbour import _build, _Call, _packed, _sums, _tensors


def call_of(layer: nn.Module, hidden: torch.Tensor, **named: object) -> _Call:
    return _Call(
        name="layer", step=0, microbatch=0, build=_build(layer), splits=False, tensors=_tensors(layer),
        arguments=(hidden,), named=named, random_state=torch.get_rng_state(), sums=[],
    )  # fmt: skip


def layer(width: int = 4, dropout: float = 0.5) -> nn.Module:
    return nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Dropout(dropout))


def test_another_layer_that_is_built_alike_gives_the_same_bits_with_the_parameters_that_came() -> None:
    torch.manual_seed(1)
    first, second, hidden = layer(), layer(), torch.randn(2, 4)
    before = [parameter.clone() for parameter in second.parameters()]
    call = call_of(first, hidden)
    output = first(hidden)
    state = torch.get_rng_state()
    sums = [_sums(one, call, has_backward=True) for one in (first, second)]
    assert sums[0] == sums[1]
    assert sums[0][0] == int(checksum(output)), "with the random numbers of the first time"
    assert len(sums[0]) == 4, "the output, and the gradients of the input and of two parameters"
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(one, other) for one, other in zip(second.parameters(), before, strict=True))
    assert [parameter.grad for parameter in (*first.parameters(), *second.parameters())] == [None] * 4


def test_layers_that_compute_differently_are_not_alike() -> None:
    frozen = layer()
    frozen[0].weight.requires_grad_(False)
    builds = [_build(one) for one in (layer(), layer(5), layer(dropout=0.1), frozen, layer().eval())]
    assert len(set(builds)) == len(builds)
    assert _build(layer()) == builds[0]


def test_what_cannot_travel_is_named() -> None:
    name, packed = _packed(call_of(layer(), torch.ones(1, 4), scale=lambda value: value)) or ("", b"")
    assert (name, packed) == ("layer", None)
