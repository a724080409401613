"""Layers that exchange tokens between real processes, from the profile to a plan with forwards beside backwards."""

from pathlib import Path

import pytest

from evenflow import plan
from evenflow.profiles.layer_file import read_layer_file
from tests_torch.run.warm_scripts import run_script

pytestmark = pytest.mark.processes

LAYERS = '''
import sys, warnings
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._functional_collectives import all_to_all_single_autograd
import evenflow
from evenflow.profiles.layer_file import format_layer_file


class Exchange(torch.autograd.Function):
    """Equal parts of rows to every process, and of their gradients back."""

    @staticmethod
    def forward(ctx, rows):
        received = torch.empty_like(rows)
        dist.all_to_all_single(received, rows.contiguous(), async_op=True).wait()
        return received

    @staticmethod
    def backward(ctx, gradient):
        return Exchange.apply(gradient)


def functional(rows):
    return all_to_all_single_autograd(rows.contiguous(), None, None, dist.group.WORLD)


class Layer(nn.Module):
    """A router that keeps all tokens equal, and experts behind exchanges, none where `send` is the identity."""

    def __init__(self, send, back, name="mlp"):
        super().__init__()
        self.attention = nn.Linear(128, 128)
        self.send, self.back, self.name = send, back, name
        self.add_module(name, nn.Sequential(nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128)))

    def forward(self, hidden):
        hidden = hidden + self.attention(hidden)
        rows = hidden.reshape(-1, 128)
        return hidden + self.back(self.get_submodule(self.name)(self.send(rows))).reshape(hidden.shape)


def same(rows):
    return rows


def profiled(layers, device="cpu", **options):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        network = evenflow.profile(layers, torch.zeros(1, 256, 128), device=device, **options)
    if dist.get_rank() == 0:
        for warning in said:
            if "halves" in str(warning.message):
                print(warning.message)
    return network


dist.init_process_group("gloo")
'''
END = """
if dist.get_rank() == 0:
    with open("layers.json", "w") as file:
        file.write(format_layer_file(network))
dist.destroy_process_group()
"""


def profiled(folder: Path, body: str) -> str:
    """Run a script on two processes; return what the first one says."""
    (folder / "profiled.py").write_text(LAYERS + body + END, encoding="utf-8")
    return run_script(folder, "profiled.py", processes=2)


def test_a_layer_file_has_the_halves_of_layers_that_exchange_and_a_plan_hides_them(tmp_path: Path) -> None:
    said = profiled(
        tmp_path,
        "network = profiled([Layer(same, same), *(Layer(Exchange.apply, Exchange.apply) for _ in range(3)),"
        " Layer(functional, functional)])",
    )
    assert said == ""
    network = read_layer_file(tmp_path / "layers.json")
    dense, *experts = (layer.halves for layer in network.layers)
    assert dense is not None
    assert dense.forward.exchange_ns == dense.backward.exchange_ns == 0
    assert dense.forward.mlp_ns > 0 < dense.backward.mlp_ns
    for halves in experts:
        assert halves is not None
        for half in (halves.forward, halves.backward):
            assert min(half.dispatch_ns, half.mlp_ns, half.combine_ns) > 0
    outcome = plan(network, num_ranks=2, num_microbatches=8, schedule="1f1b-overlap")
    plain = plan(network, num_ranks=2, num_microbatches=8, schedule="1f1b")
    assert 0 < outcome.makespan_ns < plain.makespan_ns


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        ("Layer(Exchange.apply, same)", "Layer.1: tokens do not travel once there and back"),
        ("Layer(same, same, 'second')", "Layer.1: no module is called mlp, feed_forward, ffn"),
    ],
)
def test_what_cannot_be_told_is_said_and_not_written(tmp_path: Path, layer: str, said: str) -> None:
    out = profiled(tmp_path, f"network = profiled([Layer(functional, functional), {layer}])")
    assert out.startswith(said)
    assert out.count("\n") == 1
    first, second = (layer.halves for layer in read_layer_file(tmp_path / "layers.json").layers)
    assert first is not None
    assert second is None


def test_computed_times_have_no_exchanges_and_say_so(tmp_path: Path) -> None:
    out = profiled(
        tmp_path,
        "network = profiled([Layer(same, same), Layer(Exchange.apply, Exchange.apply)], 'fake', accelerator='h100')",
    )
    assert out.startswith("Layer.1: computed times leave out exchanges of tokens; halves are not written")
    assert all(layer.halves is None for layer in read_layer_file(tmp_path / "layers.json").layers)
