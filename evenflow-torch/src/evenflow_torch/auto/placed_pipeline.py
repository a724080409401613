"""Puts the pipeline of a plan on devices: the layers of every stage and the placement of every parameter."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from evenflow.cluster import (
    PARTIAL,
    AttentionOnMesh,
    Cluster,
    MeshPlan,
    Placement,
    Product,
    StageOnMesh,
    Submesh,
    blocks_of,
)
from evenflow.model import Layer, Network
from evenflow.simulate import Simulation, simulate
from evenflow_torch.auto.refine import Refined, Refinement
from evenflow_torch.auto.sharding.mesh_costs import LayerCost, StageOption
from evenflow_torch.auto.sharding.sharding_plan import ParameterSharding, ShardingPlan
from evenflow_torch.auto.sharding.ways import MeshSharding
from evenflow_torch.auto.stages.sharded_stages import ShardedStages, in_runs
from evenflow_torch.auto.stages.two_level_plan import StagesOutcome, SubmeshStage, TwoLevelPlan
from evenflow_torch.auto.wording.stage_use import StageUse, stage_use
from evenflow_torch.models.parts import ModelRow, Part

_Value = TypeVar("_Value")
_Layers = list[tuple[Part, LayerCost]]
"""Layers of a stage, each with what it costs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedStage:
    """A stage of the pipeline on its devices: its layers, and where all of their tensors lie."""

    stage: int
    first: int
    end: int
    """Layers of the body; the first stage has the head too, the last one the tail."""
    submesh: Submesh
    devices: range
    """In order: along `sharding.mesh`, the last axis varying fastest."""
    sharding: MeshSharding
    use: StageUse
    """What the devices are used for."""
    modules: tuple[str, ...]
    """Paths in the whole model, in order, head and tail included."""
    kinds: tuple[int, ...]
    """The kind of every layer, head and tail included."""
    shardings: Mapping[int, ShardingPlan]
    """The operators of a layer, by the layer's kind."""
    recompute: Mapping[str, int]
    """Layers by recompute kind; they are the first of the stage. The others keep everything."""
    option: StageOption
    """Times by part, without recomputation."""
    on_mesh: StageOnMesh
    """Where its tensors lie, as `evenflow.run` needs it to run the stage."""

    @property
    def rank(self) -> int:
        """The index of its submesh among all, which the chunks of a rank share."""
        return self.on_mesh.rank

    @property
    def placements(self) -> Mapping[str, Placement]:
        """The placement of every parameter, by its full name."""
        return self.on_mesh.parameters


@dataclass(frozen=True, kw_only=True)
class PlacedPipeline:
    """The pipeline of a two-level plan on its devices, refined where that shortens the step."""

    cluster: Cluster
    stages: tuple[PlacedStage, ...]
    """Stages in the order of the model."""
    simulation: Simulation
    """Each message has its own time."""

    @property
    def mesh_plan(self) -> MeshPlan:
        """The plan as `evenflow.run.pipeline` takes it."""
        return MeshPlan(cluster=self.cluster, stages=tuple(stage.on_mesh for stage in self.stages))


def place(
    stages: StagesOutcome, refinement: Refinement | None, provider: ShardedStages, row: ModelRow
) -> PlacedPipeline | None:
    """Put the refined pipeline, or the shortest two-level plan, on its devices; None where there is no plan."""
    refined = refinement.best if refinement else None
    base = refinement.base if refinement and refined else stages.shortest
    if base is None:
        return None
    simulation = simulated(base, provider) if refined is None else _refined_simulation(refined)
    return PlacedPipeline(
        cluster=base.cluster,
        stages=tuple(_placed_stages(base, refined, simulation, provider, row)),
        simulation=simulation,
    )


def _placed_stages(
    base: TwoLevelPlan, refined: Refined | None, simulation: Simulation, provider: ShardedStages, row: ModelRow
) -> Iterator[PlacedStage]:
    """Yield the stages of a simulated plan, placed on the submeshes of `base`."""
    plan, schedule = simulation.plan, simulation.timeline.schedule
    chunk_of = {stage: chunk for chunk, stages in enumerate(schedule.stage_table.tolist()) for stage in stages}
    first = 0
    for stage, rank in enumerate(schedule.stage_ranks):
        chunk, submesh_stage = chunk_of[stage], base.stages[rank]
        end = first + plan.layers[chunk][rank]
        sharding = refined.sharding if refined else submesh_stage.cost.sharding
        recompute = {kind: table[chunk][rank] for kind, table in plan.recompute.items() if table[chunk][rank]}
        bare = _placed(stage, rank, (first, end), submesh_stage, sharding, provider, row)
        yield replace(bare, recompute=recompute)
        first = end


def _placed(
    stage: int,
    rank: int,
    span: tuple[int, int],
    submesh_stage: SubmeshStage,
    sharding: MeshSharding,
    provider: ShardedStages,
    row: ModelRow,
) -> PlacedStage:
    """Return layers `span` of the body placed on the submesh of `submesh_stage`, without recomputation."""
    first, end = span
    submesh, devices, places = submesh_stage.submesh, submesh_stage.devices, provider.with_ends(first, end)
    kinds = tuple(provider.order[at] for at in places)
    layers = _layers(span, submesh, sharding, provider, row)
    return PlacedStage(
        stage=stage,
        first=first,
        end=end,
        submesh=submesh,
        devices=devices,
        sharding=sharding,
        use=use_of((first, end), submesh, sharding, provider, row),
        modules=tuple(path for layer, _ in layers for path in layer.modules),
        kinds=kinds,
        shardings={kind: cost.plan for kind, (_, cost) in zip(kinds, layers, strict=True)},
        recompute={},
        option=provider.stage_option(first, end, submesh, sharding),
        on_mesh=stage_on_mesh(rank, span, submesh, devices, sharding, provider, row),
    )


def stage_on_mesh(
    rank: int,
    span: tuple[int, int],
    submesh: Submesh,
    devices: range,
    sharding: MeshSharding,
    provider: ShardedStages,
    row: ModelRow,
) -> StageOnMesh:
    """Return where the tensors of layers `span` of the body lie, with the ends of the model beside them."""
    first, end = span
    layers = _layers(span, submesh, sharding, provider, row)
    parameters = dict(_parameters(layers))
    is_last = end == len(provider.body)
    return StageOnMesh(
        rank=rank,
        input=provider.boundary(first, submesh, sharding, devices),
        output=None if is_last else provider.boundary(end, submesh, sharding, devices, leaving=True),
        parameters={name: parameter.kept for name, parameter in parameters.items()},
        gradients={
            name: parameter.gradient for name, parameter in parameters.items() if set(parameter.gradient) != {PARTIAL}
        },
        updates={
            name: parameter.update for name, parameter in parameters.items() if parameter.update != parameter.kept
        },
        gathered={name: parameter.used for name, parameter in parameters.items() if parameter.used != parameter.kept},
        entries={layer.modules[0]: cost.entry for layer, cost in layers},
        products=_products(layers),
        attention=_attention(layers),
    )


def _layers(
    span: tuple[int, int], submesh: Submesh, sharding: MeshSharding, provider: ShardedStages, row: ModelRow
) -> _Layers:
    """Return layers `span` of the body and the ends of the model beside them, each with what it costs."""
    return [
        (row.parts[at], provider.layer_cost(submesh, sharding, provider.order[at])) for at in provider.with_ends(*span)
    ]


def use_of(
    span: tuple[int, int], submesh: Submesh, sharding: MeshSharding, provider: ShardedStages, row: ModelRow
) -> StageUse:
    """Return what layers `span` of the body use the axes of a submesh for under a sharding."""
    places = provider.with_ends(*span)
    layers = (
        (_short(row.parts[at]), provider.order[at], provider.layer_cost(submesh, sharding, provider.order[at]))
        for at in places
    )
    return stage_use(layers, sharding.mesh, submesh)


def _short(layer: Part) -> str:
    """Return the last part of a layer's module path, or the whole path where that part is only a number."""
    path = layer.modules[-1]
    name = path.rpartition(".")[2]
    return path if name.isdecimal() else name


def _parameters(layers: _Layers) -> Iterator[tuple[str, ParameterSharding]]:
    """Yield every parameter's sharding, with the parameter's name in the whole model."""
    for layer, cost in layers:
        for parameter in cost.plan.parameters:
            for name in parameter.names():
                yield layer.full_name(name), parameter


def _products(layers: _Layers) -> dict[str, Product]:
    """Return the placements of matrix products, by module, for modules with a single product."""
    return _only_once(
        (
            _module(layer, value.name),
            Product(reads=value.reads, gives=value.placement, experts=value.experts),
        )
        for layer, cost in layers
        for value in cost.plan.activations
        if value.reads is not None
    )


def _attention(layers: _Layers) -> dict[str, AttentionOnMesh]:
    """Return how attention is split, by module, where the module attends once and no split is strided."""
    attention = _only_once(
        (_module(layer, value.module), value.attention)
        for layer, cost in layers
        for value in cost.plan.activations
        if value.attention is not None
    )
    return {
        name: shared
        for name, shared in attention.items()
        if all(blocks_of(split) == 1 for split in shared.placement if split >= 0)
    }


def _module(layer: Part, name: str) -> str:
    """Return the full name of a module of a layer."""
    return layer.full_name(f"{name}.weight").removesuffix(".weight")


def _only_once(named: Iterable[tuple[str, _Value]]) -> dict[str, _Value]:
    """Return the pairs whose name occurs once; modules that share a name may be sharded differently."""
    pairs = list(named)
    counts = Counter(name for name, _value in pairs)
    return {name: value for name, value in pairs if counts[name] == 1}


def _refined_simulation(refined: Refined) -> Simulation:
    """Return the refined plan simulated with each message's own time."""
    assert refined.outcome.simulation is not None
    assert refined.timeline is not None
    return replace(refined.outcome.simulation, timeline=refined.timeline)


def simulated(plan: TwoLevelPlan, provider: ShardedStages) -> Simulation:
    """Simulate a two-level plan with each message's own time."""
    simulation = simulate(_network(plan, provider), plan.pipeline, communication=plan.communication)
    return replace(simulation, timeline=plan.timeline)


def _network(plan: TwoLevelPlan, provider: ShardedStages) -> Network:
    """Return the network in which every layer costs what it does on its stage's submesh and sharding.

    A constant may differ between stages and is one number of a network: it is that of the least, and the first layer of
    another stage holds the rest as if it were parameters.
    """
    networks = [provider.network_on(stage.submesh, stage.cost.sharding) for stage in plan.stages]
    constant = min(network.constant_bytes for network in networks)
    layers: list[Layer] = []
    for stage, network in zip(plan.stages, networks, strict=True):
        first, *others = network.layers[stage.first : stage.end]
        more = network.constant_bytes - constant
        layers += [replace(first, parameter_bytes=first.parameter_bytes + more), *others]
    return Network(
        name=provider.name,
        runs=in_runs(layers),
        head=networks[0].head,
        tail=networks[-1].tail,
        constant_bytes=constant,
    )
