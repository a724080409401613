"""The processes of a training in a mesh of devices: pipelines, and replicas of every stage."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from evenflow.errors import InputError
from evenflow.language import _

PIPELINE = "pp"
"""Dimension of a mesh whose processes hold the stages of one pipeline, in the order of its ranks."""
REPLICATED = "dp_replicate"
"""Dimension whose processes hold whole copies of a stage."""
SHARDED = ("dp_shard", "dp")
"""Dimension whose processes share the parameters of a stage; it has one of these names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """Where this process stands among the pipelines of a training.

    All processes whose place in the pipeline is the same hold the same stages, each for samples of its own.
    """

    pipeline: dist.ProcessGroup
    """The processes of this pipeline, in the order of its ranks."""
    count: int = 1
    """Pipelines of the training."""
    index: int = 0
    """Place of this one among them."""
    data: DeviceMesh | None = None
    """The processes with the same stages, over one or two dimensions; None where there is one pipeline."""
    pipelines: tuple[tuple[int, ...], ...]
    """The processes of every pipeline, in the order of its ranks."""

    @property
    def is_sharded(self) -> bool:
        """Whether replicas share the parameters of a stage instead of having copies."""
        return self.data is not None and self._names[-1] in SHARDED

    @property
    def groups(self) -> list[dist.ProcessGroup]:
        """The processes with the same stages, a group for each dimension: sums over all of them are over replicas."""
        return [] if self.data is None else [self.data.get_group(name) for name in self._names]

    @property
    def alike(self) -> list[int]:
        """The processes with the same stages, in the order of their pipelines."""
        return [dist.get_rank()] if self.data is None else self.data.mesh.flatten().tolist()

    def process_of(self, rank: int) -> int:
        """Return the process of a rank of this pipeline."""
        return dist.get_global_rank(self.pipeline, rank)

    def mean(self, value: Tensor) -> Tensor:
        """Return the mean of the values of all replicas, each of which calls it."""
        return self.sum(value).div_(self.count)

    def sum(self, value: Tensor) -> Tensor:
        """Return the sum of the values of all replicas, each of which calls it."""
        total = value.clone()
        for group in self.groups:
            dist.all_reduce(total, group=group)
        return total

    @property
    def _names(self) -> Sequence[str]:
        assert self.data is not None
        return self.data.mesh_dim_names or ()


def replicas_of(mesh: DeviceMesh | None) -> Replicas:
    """Return the pipelines of a mesh with dimensions ``pp`` and, in front or behind, those of data parallelism.

    ``dp_shard``, or ``dp``, shares the parameters of a stage, ``dp_replicate`` copies them, and both together share
    them among some and copy them to others. Without a mesh all processes are one pipeline.

    Raises:
        InputError: other dimensions, or none called ``pp``.
    """
    if mesh is None:
        assert dist.group.WORLD is not None
        return Replicas(pipeline=dist.group.WORLD, pipelines=(tuple(range(dist.get_world_size())),))
    names = mesh.mesh_dim_names or ()
    shared = [name for name in names if name in SHARDED]
    others = set(names) - {PIPELINE, REPLICATED, *SHARDED}
    if PIPELINE not in names or others or len(shared) > 1:
        raise InputError(
            value=str(names),
            rule=_("must have a dimension pp, and of dp_replicate and dp_shard (or dp) those that are wanted"),
            place="mesh",
            remedy=_('for example init_device_mesh("cuda", (2, 4), mesh_dim_names=("dp", "pp"))["dp", "pp"]'),
        )
    pipeline = mesh.get_group(PIPELINE)
    data = [*(name for name in names if name == REPLICATED), *shared]
    if not data:
        return Replicas(pipeline=pipeline, pipelines=_pipelines(mesh, data))
    of_stage = mesh[tuple(data)] if len(data) > 1 else mesh[data[0]]
    index = 0
    for name in data:
        index = index * of_stage[name].size() + of_stage.get_local_rank(name)
    return Replicas(
        pipeline=pipeline, count=of_stage.size(), index=index, data=of_stage, pipelines=_pipelines(mesh, data)
    )


def _pipelines(mesh: DeviceMesh, data: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Return the processes of every pipeline of a mesh, as replicas are counted."""
    names = list(mesh.mesh_dim_names or ())
    processes = mesh.mesh.permute([names.index(name) for name in (*data, PIPELINE)])
    return tuple(map(tuple, processes.reshape(-1, processes.shape[-1]).tolist()))
