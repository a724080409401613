"""Tries the layers of a plan as `evenflow.run` computes them, on fake tensors and fake devices: nothing is computed.

A plan follows from the rules of single operators. Whether torch takes a layer apart as they say shows when it runs, and
then the plan is of no use; so every kind of layer runs forward and backward once under each sharding that a plan has.
"""

import copy
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)
from torch.distributed.device_mesh import DeviceMesh
from torch.testing._internal.distributed.fake_pg import FakeStore

from evenflow.cluster import Cluster, MeshPlan, StageOnMesh, Submesh, shape_of
from evenflow_torch.auto.failed_trial import FailedTrial
from evenflow_torch.auto.placed_pipeline import PlacedPipeline, stage_on_mesh
from evenflow_torch.auto.sharding.ways import MeshSharding
from evenflow_torch.auto.stages.sharded_stages import ShardedStages
from evenflow_torch.models.made_tensors import copy_with, make_empty
from evenflow_torch.models.parts import ModelRow, Part
from evenflow_torch.models.training_row import LossTail
from evenflow_torch.run.engine.stages import StageParts
from evenflow_torch.run.mesh.gathered import gather_around
from evenflow_torch.run.mesh.mesh_parameters import MeshParameters
from evenflow_torch.run.mesh.stage_modules import MeshStageModule, shard_parameters

_NO_VALUES = (DataDependentOutputException, DynamicOutputShapeException, UnsupportedFakeTensorException)
"""What stops a layer only because tensors have no values here."""


def first_fault(pipeline: PlacedPipeline, provider: ShardedStages, row: ModelRow) -> FailedTrial | None:
    """Return the first sharding of a plan under which some layer of it does not run; None where all do.

    What cannot be tried, such as a model whose parts have no place of their own in it, counts as running.
    """
    if dist.is_initialized() or not all(map(_has_its_names, row.parts)):
        return None
    tried = set()
    for stage in pipeline.stages:
        for at in range(stage.first, stage.end):
            kinds = tuple(provider.order[place] for place in provider.with_ends(at, at + 1))
            key = stage.submesh, stage.sharding, kinds
            if key not in tried:
                tried.add(key)
                reason = _trouble(at, stage.submesh, stage.sharding, provider, row)
                if reason:
                    layer = row.body[at].name
                    return FailedTrial(
                        submesh=stage.submesh,
                        sharding=stage.sharding,
                        words=stage.use.words,
                        layer=layer,
                        reason=reason,
                    )
    return None


def _has_its_names(part: Part) -> bool:
    """Whether the runtime finds the parameters of a part by their names."""
    return isinstance(part.module, LossTail) or all(
        part.full_name(name) == (f"{part.path}.{name}" if part.path else name)
        for name, _parameter in part.module.named_parameters()
    )


def _runnable(part: Part) -> list[Part]:
    """Return a part as the runtime has it: without the loss, and modules that stand one after the other by itself."""
    if not isinstance(part.module, LossTail):
        return [part]
    return [
        Part(name=part.paths[name], path=part.paths[name], module=child, position=part.position + number)
        for number, (name, child) in enumerate(part.module.named_children())
    ]


def _trouble(at: int, submesh: Submesh, sharding: MeshSharding, provider: ShardedStages, row: ModelRow) -> str:
    """Return why layer `at` of the body, with the ends of the model beside it, does not run; "" if it does."""
    on_mesh = stage_on_mesh(0, (at, at + 1), submesh, range(submesh.num_devices), sharding, provider, row)
    parts = [each for place in provider.with_ends(at, at + 1) for each in _runnable(row.parts[place])]
    try:
        with _quietly(), _fake_devices(submesh.num_devices):
            cluster = replace(provider.cluster, num_nodes=submesh.num_nodes, devices_per_node=submesh.devices_per_node)
            _run(on_mesh, at, parts, cluster, row)
    except _NO_VALUES:
        return ""
    except Exception as error:  # noqa: BLE001 - whatever stops it would stop the training
        return _first_sentence(error)
    return ""


def _run(on_mesh: StageOnMesh, at: int, parts: Sequence[Part], cluster: Cluster, row: ModelRow) -> None:
    """Run one layer forward and backward."""
    fakes = FakeTensorMode(allow_non_fake_inputs=True)

    def fake(tensor: torch.Tensor) -> torch.Tensor:
        with fakes:
            return make_empty(tensor)

    copies = tuple(replace(part, module=copy_with(part.module, fake)) for part in parts)
    stage = StageParts(index=min(at, 1), rank=0, parts=copies, kinds={}, splits_backward=False)
    mesh = DeviceMesh("cpu", torch.arange(len(on_mesh.devices)).reshape(on_mesh.mesh))
    with fakes:
        for part in copies:
            shard_parameters(part, on_mesh.parameters, mesh)
        parameters = MeshParameters((), [stage], MeshPlan(cluster=cluster, stages=(on_mesh,) * (stage.index + 1)), 0)
        module = MeshStageModule(
            stage,
            copy.copy(row.context),  # which keeps what it made last
            planned=on_mesh,
            mesh=mesh,
            before_use=parameters.before_use,
            expert_capacity=None,
        )
        gathered = gather_around(module, stage, on_mesh.gathered, parameters.before_use)
        first = parts[0].inputs[0]
        shape = shape_of(on_mesh.input.boxes[0]) if stage.index else tuple(first.shape)
        hidden = torch.zeros(shape, dtype=first.dtype, requires_grad=first.is_floating_point())
        output = module(hidden)
        output.backward(torch.ones_like(output))
        gathered.ended()


@contextmanager
def _fake_devices(count: int) -> Iterator[None]:
    """Let this process be the first of `count`, of which the others are not there."""
    dist.init_process_group("fake", rank=0, world_size=count, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


@contextmanager
def _quietly() -> Iterator[None]:
    """Hide what torch logs and warns of."""
    before = logging.root.manager.disable
    logging.disable()
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(before)


def _first_sentence(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]
