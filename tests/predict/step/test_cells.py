"""Layers of cells: given, dealt evenly, with the ends as layers; and how many recompute."""

from dataclasses import replace

import pytest

from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.topology import Topology
from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.predict.step.cells import plan_of
from evenflow.predict.step_network import priced_network
from evenflow.predict.training import Degrees, Training
from tests.predict.test_memory import transformer

TOPOLOGY = Topology(
    accelerator=Accelerator(
        flops_per_s=1e14, memory_bytes_per_s=1e12, link_bytes_per_s=1e11, network_bytes_per_s=1e10
    ),
    domain_devices=8,
)  # fmt: skip


def plan(layers: int, *, pipeline: int = 4, chunks: int = 1, **changes: object) -> Plan:
    training = Training(
        model=transformer(layers=layers), degrees=Degrees(pipeline=pipeline, chunks=chunks), microbatch=1,
        global_batch=16, sequence=64,
    )  # fmt: skip
    training = replace(training, **changes)  # type: ignore[arg-type]
    return plan_of(training, priced_network(training, TOPOLOGY).network)


def test_ends_as_layers() -> None:
    found = plan(14, chunks=2, ends_are_layers=True)
    assert found.layers == ((1, 2, 2, 2), (2, 2, 2, 1))
    assert found.schedule == "interleaved"
    with pytest.raises(InputError, match="fill the 8 cells evenly"):
        plan(16, chunks=2, ends_are_layers=True)


def test_given_cells() -> None:
    assert plan(10, layout=((1, 3, 4, 2),)).layers == ((1, 3, 4, 2),)
    with pytest.raises(InputError, match="a row for each chunk and a number for each rank, 1 x 4"):
        plan(10, layout=((5, 5),))


def test_some_layers_of_every_cell_recompute() -> None:
    found = plan(10, layout=((1, 3, 4, 2),), recompute="full", full_layers=2)
    assert found.recompute == {"full": ((1, 2, 2, 2),)}
    assert plan(8, recompute="full").recompute == {"full": ((2, 2, 2, 2),)}
    assert plan(8, recompute="select", full_layers=1).recompute == {"select": ((2, 2, 2, 2),)}


def test_groups_of_microbatches() -> None:
    assert plan(8, chunks=2, group_size=8).group_size == 8
    assert plan(8, group_size=8).group_size is None
