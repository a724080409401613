"""The meshes that layers are sharded on, the most promising first, until the time is over."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace

from evenflow.cluster import MOST_AXES, Cluster, Mesh, Submesh, logical_meshes, submeshes
from evenflow.errors import InputError
from evenflow.interruption import abandonable, answer_exists, was_interrupted
from evenflow.language import _
from evenflow_torch.auto.fixing.fixed import fixed_text
from evenflow_torch.auto.fixing.parameters import has_placements, with_placements
from evenflow_torch.auto.sharding.layer_costs import costs_on
from evenflow_torch.auto.sharding.least_work import least_work
from evenflow_torch.auto.sharding.mesh_costs import MeshCosts
from evenflow_torch.auto.sharding.plain.restrictions import plain_ways
from evenflow_torch.auto.sharding.program import ModuleTraining
from evenflow_torch.auto.sharding.solution_plan import EXPERTS_TARGET
from evenflow_torch.auto.stages.request import TwoLevelRequest, silent
from evenflow_torch.auto.stages.sharded_stages import ShardedStages
from evenflow_torch.auto.stages.stage_search import has_even_plan
from evenflow_torch.auto.stages.working_memory import working_memory
from evenflow_torch.models.parts import ModelRow
from evenflow_torch.models.trace.captured_layers import CapturedLayers, capture_layers

_SHARDING_SHARE = 0.75
"""Share of the time left for tracing and sharding; the rest is for stages and refinement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedMesh:
    """A submesh taken as a logical mesh."""

    submesh: Submesh
    mesh: Mesh

    def __str__(self) -> str:
        """Return the submesh, and the logical mesh if that differs: ``2x8 as 4x4``."""
        shape = self.mesh.shape if len(self.mesh.shape) > 1 else (1, *self.mesh.shape)
        if shape == self.submesh or (self.submesh.devices_per_node == 1 and len(self.mesh.shape) == 1):
            return str(self.submesh)
        return _("{submesh} as {mesh}", submesh=self.submesh, mesh="x".join(map(str, self.mesh.shape)))


def sharded_stages(
    row: ModelRow, request: TwoLevelRequest, *, progress: Callable[[str], None] = silent, only_plain: bool = False
) -> ShardedStages:
    """Trace every kind of layer of `row` and shard it on the submeshes of the cluster.

    Memory weighs as if the stage held the most microbatches that a pipeline of such stages has in flight. What there is
    no time for is left out, and told by `ShardedStages.left_out`; the same where a signal asks for the answer, once
    there is one. With `only_plain` layers are sharded as in plain plans only.

    Raises:
        InputError: a layer that cannot be traced; no time for any mesh.
    """
    from evenflow_torch.models.equal_parts import kinds_of

    progress(_("tracing the layers"))
    kinds, order = kinds_of(row.parts)
    ends = [*order[: len(row.head)], *order[len(order) - len(row.tail) :]]
    layers = with_placements(capture_layers(kinds, order), row.parts, request.fixed.placements)
    request.fixed.check(request.cluster, len(row.body))
    _check_capacity(layers, request.expert_capacity)
    if request.deadline.is_over:
        raise request.deadline.too_short()
    empty = ShardedStages(
        name=row.name,
        cluster=request.cluster,
        num_microbatches=request.num_microbatches,
        costs={},
        has_head=bool(row.head),
        has_tail=bool(row.tail),
        working=working_memory(kinds, ends),
        work=least_work(layers.graphs, layers.order, 1, request.accelerator),
    )
    tried = tuple(candidate for candidate in meshes_tried(request) if has_placements(layers, candidate.mesh))
    if not tried:
        raise InputError(
            value=fixed_text(request.fixed),
            rule=_("must be splits that some stage with these degrees has devices for"),
            place="--fix",
            remedy=_("leave one out"),
        )
    costs: dict[Submesh, dict[tuple[int, ...], MeshCosts]] = {}
    has_plan = False
    for count, (candidate, mesh_costs) in enumerate(_solved(layers, tried, request, only_plain=only_plain), 1):
        costs.setdefault(candidate.submesh, {})[candidate.mesh.shape] = mesh_costs
        progress(_("operators sharded on {count} of {all} meshes", count=count, all=len(tried)))
        if not has_plan and has_even_plan(
            replace(empty, costs=costs), schedule=request.schedule, num_stages=request.fixed.pipeline
        ):
            has_plan = True
            answer_exists()
    if not costs:
        raise request.deadline.too_short()
    left_out = tuple(
        str(candidate) for candidate in tried if candidate.mesh.shape not in costs.get(candidate.submesh, {})
    )
    in_order = {shape: costs[shape] for shape in submeshes(request.cluster) if shape in costs}
    return replace(empty, costs=in_order, left_out=left_out)


def meshes_tried(request: TwoLevelRequest) -> tuple[TriedMesh, ...]:
    """Return the logical meshes of the submeshes, the most promising first.

    That is, one logical mesh of each before the second, and the whole cluster, a node and a device before the others.
    Of whole nodes those are tried whose number divides all nodes, and the powers of two.
    """
    cluster = request.cluster
    most_axes = MOST_AXES if request.fixed.needs_three_axes else request.most_axes
    ranked = [
        (place, _rank(cluster, shape), TriedMesh(submesh=shape, mesh=mesh))
        for shape in submeshes(cluster)
        if cluster.num_nodes % shape.num_nodes == 0 or shape.num_nodes.bit_count() == 1
        if request.fixed.has_room(shape)
        for place, mesh in enumerate(logical_meshes(cluster, shape, request.accelerator, most_axes=most_axes))
    ]
    return tuple(candidate for *_rest, candidate in sorted(ranked, key=lambda item: item[:2]))


def has_plain_way(request: TwoLevelRequest, *, has_experts: bool) -> bool:
    """Return whether a decoder has a plain plan on some mesh that keeps to the degrees that are decided."""
    return any(
        request.fixed.allows_plain(tried.mesh, way)
        for tried in meshes_tried(request)
        for way in plain_ways(tried.mesh, has_experts=has_experts, has_attention=True)
    )


def uneven_notes(samples: int, request: TwoLevelRequest) -> tuple[str, ...]:
    """Return a sentence where the samples of a microbatch do not divide over the devices of any mesh of several."""
    sizes = {size for tried in meshes_tried(request) for size in tried.mesh.shape if size > 1}
    if not sizes or any(samples % size == 0 for size in sizes):
        return ()
    return (
        _(
            "the {samples} sequences of a microbatch do not divide over {devices} devices, so operators are not split "
            "by sequences; with --global-batch a size is chosen that divides",
            samples=samples,
            devices=min(sizes),
        ),
    )


def _check_capacity(layers: CapturedLayers, capacity: float | None) -> None:
    has_experts = any(operator.target == EXPERTS_TARGET for graph in layers.graphs for operator in graph.operators)
    if capacity is not None and not has_experts:
        raise InputError(
            value=capacity,
            rule=_("must not be given for a model without experts"),
            place="--expert-capacity",
            remedy=_("leave it out"),
        )


def _rank(cluster: Cluster, shape: Submesh) -> tuple[int, int, int]:
    first = [cluster.num_devices, cluster.devices_per_node, 1]
    place = first.index(shape.num_devices) if shape.num_devices in first else len(first)
    return place, cluster.num_nodes % shape.num_nodes, -shape.num_devices


def _solved(
    layers: CapturedLayers, tried: tuple[TriedMesh, ...], request: TwoLevelRequest, *, only_plain: bool
) -> Iterator[tuple[TriedMesh, MeshCosts]]:
    """Yield the costs of all kinds of layers on one mesh after the other, until time is over or a signal comes."""
    solved = costs_on(
        layers,
        [(candidate.mesh, _training(candidate.submesh, request)) for candidate in tried],
        deadline=request.deadline.share(_SHARDING_SHARE),
        only_plain=only_plain,
    )
    with closing(solved):
        for candidate in tried:
            try:
                with abandonable():
                    mesh_costs = next(solved, None)
            except KeyboardInterrupt:
                if was_interrupted():  # of a command, whose answer is what there is
                    return
                raise
            if mesh_costs is None:
                return
            yield candidate, mesh_costs


def _training(shape: Submesh, request: TwoLevelRequest) -> ModuleTraining:
    most_stages = -(-request.cluster.num_devices // shape.num_devices)
    return ModuleTraining(
        num_microbatches=request.num_microbatches,
        microbatches_in_flight=min(request.num_microbatches, most_stages),
        optimizer_bytes_per_parameter=request.optimizer_bytes_per_parameter,
        overlap=request.overlap,
        expert_capacity=request.expert_capacity,
    )
