"""Layers that offload compute the same, hold nothing on the device, and come back a layer ahead."""

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from evenflow_torch.run.engine import offload  # noqa: E402
from evenflow_torch.run.engine.offload import Offload  # noqa: E402

WIDTH = 8


def layers(count: int) -> list[nn.Module]:
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.GELU()).double() for _ in range(count)]


def run(modules: list[nn.Module], forwards: list[object], x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    hidden = x
    for forward in forwards:
        hidden = forward(hidden)
    loss = hidden.square().sum()
    loss.backward()
    return loss.detach(), [parameter.grad for module in modules for parameter in module.parameters()]


def test_gradients_are_the_same() -> None:
    x = torch.randn(4, WIDTH, dtype=torch.float64)
    plain, offloaded = layers(3), layers(3)
    place = Offload()
    place.begin(x)
    expected = run(plain, list(plain), x)
    found = run(offloaded, [place.forward_of(one) for one in offloaded], x)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_inputs_wait_on_the_host_for_the_second_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[torch.Tensor] = []
    original = offload._Sent.__init__
    monkeypatch.setattr(
        offload._Sent, "__init__", lambda self, tensor, *more: sent.append(tensor) or original(self, tensor, *more)
    )
    x = torch.randn(4, WIDTH, dtype=torch.float64)
    plain, again = layers(3), layers(3)
    place = Offload()
    place.begin(x)
    expected = run(plain, list(plain), x)
    found = run(again, [place.recomputed(one) for one in again], x)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert [tensor.shape for tensor in sent] == [x.shape] * 3
    with torch.no_grad():  # nothing waits for a backward that does not come
        place.recomputed(again[0])(x)
    assert len(sent) == 3


def test_parameters_stay_and_activations_go(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[torch.Tensor] = []
    original = offload._Sent.__init__
    monkeypatch.setattr(
        offload._Sent, "__init__", lambda self, tensor, *more: sent.append(tensor) or original(self, tensor, *more)
    )
    (module,) = layers(1)
    place = Offload()
    place.forward_of(module)(torch.randn(4, WIDTH, dtype=torch.float64, requires_grad=True))
    own = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}
    assert sent
    assert not own & {tensor.untyped_storage().data_ptr() for tensor in sent}


def test_a_layer_is_fetched_while_the_one_behind_it_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also that nothing of another microbatch is fetched, which would take its place too early."""
    modules = layers(3)
    place = Offload()
    records: list[list[offload._Layer]] = []
    results = []
    for _ in range(2):
        hidden = torch.randn(4, WIDTH, dtype=torch.float64)
        place.begin(hidden)
        records.append([])
        for module in modules:
            hidden = place.forward_of(module)(hidden)
            assert place._newest is not None
            records[-1].append(place._newest)
        results.append(hidden.sum())

    events: list[tuple[int, int, str]] = []
    names = {id(one): (m, at) for m, record in enumerate(records) for at, one in enumerate(record)}
    ahead, taken = offload._Layer.fetch, offload._Layer.fetched
    monkeypatch.setattr(offload._Layer, "fetch", lambda self: events.append((*names[id(self)], "ahead")) or ahead(self))
    monkeypatch.setattr(
        offload._Layer, "fetched", lambda self, one: events.append((*names[id(self)], "taken")) or taken(self, one)
    )
    results[1].backward()
    order = list(dict.fromkeys(events))
    assert order == [(1, 2, "taken"), (1, 1, "ahead"), (1, 1, "taken"), (1, 0, "ahead"), (1, 0, "taken")]
