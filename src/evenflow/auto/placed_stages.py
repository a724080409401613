"""What runs where: the stages of a plan with their devices, layers and the placement of every parameter."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from evenflow.auto.refine import Refined
from evenflow.auto.sharding.layer_costs import LayerCost, StageOption
from evenflow.auto.sharding.sharding_plan import ParameterSharding
from evenflow.auto.stages.inter_operator import TwoLevelPlan
from evenflow.auto.stages.sharded_stages import ShardedStages, in_runs
from evenflow.cluster.cluster import Submesh
from evenflow.cluster.layout import Layout
from evenflow.cluster.mesh_plan import Product, StageOnMesh
from evenflow.cluster.placement import Placement
from evenflow.model import NONE, Layer, Network, Plan
from evenflow.simulate import Simulation, simulate
from evenflow.torch_model.parts import ModelRow


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedStage:
    """A stage of the pipeline."""

    stage: int
    rank: int
    """Its submesh's place among all, the same for the chunks of a rank."""
    first: int
    end: int
    """Layers of the body; the first stage has the head too, the last one the tail."""
    submesh: Submesh
    devices: range
    mesh_shape: tuple[int, ...]
    """The devices in order, the last axis varying fastest."""
    sharding: str
    modules: tuple[str, ...]
    """Paths in the whole model, in order, head and tail included."""
    kinds: tuple[int, ...]
    """The kind of every layer, head and tail included."""
    recompute: Mapping[str, int]
    """Layers by recompute kind; they are the first of the stage. The others keep everything."""
    option: StageOption
    """Times by part, without recomputation."""
    placements: Mapping[str, Placement]
    """Of every parameter, by its full name."""
    updates: Mapping[str, Placement]
    """Of its optimizer state, where that lies otherwise."""
    entry: Layout
    """How what comes in lies on the devices: for the first stage what the model takes."""
    exit: Layout | None
    """How what goes to the next stage lies on the devices; None for the last stage."""
    entries: Mapping[str, Placement]
    """Of what comes into each layer, by its first module."""
    products: Mapping[str, Product]
    """By the full name of the module whose weight is multiplied with."""

    def on_mesh(self) -> StageOnMesh:
        """What running the stage needs of it."""
        return StageOnMesh(
            rank=self.rank,
            input=self.entry,
            output=self.exit,
            parameters=self.placements,
            updates=self.updates,
            entries=self.entries,
            products=self.products,
        )


def placed_stages(
    two_level: TwoLevelPlan, refined: Refined | None, provider: ShardedStages, row: ModelRow
) -> tuple[PlacedStage, ...]:
    """The stages of the refined pipeline on the submeshes of a two-level plan, or of the plan itself."""
    plan, stage_ranks = _pipeline(two_level, refined)
    timeline = refined.timeline if refined else two_level.timeline
    assert timeline is not None
    table = timeline.schedule.stage_table.tolist()
    chunk_of = {stage: chunk for chunk, row_of_stages in enumerate(table) for stage in row_of_stages}
    stages = []
    first = 0
    for stage, rank in enumerate(stage_ranks):
        where = two_level.stages[rank]
        words = refined.sharding if refined else where.cost.sharding
        chunk = chunk_of[stage]
        end = first + plan.layers[chunk][rank]
        sharding = provider.shardings(where.submesh)[words]
        begin = 0 if first == 0 else provider.body[first]
        last = len(provider.order) if end == len(provider.body) else provider.body[end - 1] + 1
        kinds = provider.order[begin:last]
        costs = [sharding.costs.layers[kind][sharding.level] for kind in kinds]
        stages.append(
            PlacedStage(
                stage=stage,
                rank=rank,
                first=first,
                end=end,
                submesh=where.submesh,
                devices=where.devices,
                mesh_shape=sharding.costs.mesh.shape,
                sharding=words,
                modules=tuple(path for layer in row.parts[begin:last] for path in layer.modules),
                kinds=kinds,
                recompute={kind: table[chunk][rank] for kind, table in plan.recompute.items() if table[chunk][rank]},
                option=provider.stage_option(first, end, where.submesh, words),
                placements={name: one.kept for name, one in _parameters(costs, row, begin)},
                updates={name: one.update for name, one in _parameters(costs, row, begin) if one.update != one.kept},
                entry=provider.boundary(first, where.submesh, words, where.devices),
                exit=None
                if stage == len(stage_ranks) - 1
                else provider.boundary(end, where.submesh, words, where.devices, leaving=True),
                entries={
                    row.parts[at].modules[0]: sharding.costs.entry(at, sharding.level)[1] for at in range(begin, last)
                },
                products=_products(costs, row, begin),
            )
        )
        first = end
    return tuple(stages)


def _parameters(costs: Sequence[LayerCost], row: ModelRow, begin: int) -> Iterator[tuple[str, ParameterSharding]]:
    """By full names."""
    for layer, cost in zip(row.parts[begin : begin + len(costs)], costs, strict=True):
        for parameter in cost.plan.parameters:
            for name in parameter.names():
                yield layer.full_name(name), parameter


def _products(costs: Sequence[LayerCost], row: ModelRow, begin: int) -> dict[str, Product]:
    """Of modules that multiply once; where one does so several times, each may be sharded otherwise."""
    found: dict[str, Product] = {}
    several = set()
    for layer, cost in zip(row.parts[begin : begin + len(costs)], costs, strict=True):
        for one in cost.plan.activations:
            if one.reads is None:
                continue
            name = layer.full_name(f"{one.name}.weight").removesuffix(".weight")
            if name in found:
                several.add(name)
            found[name] = Product(reads=one.reads, gives=one.placement)
    return {name: one for name, one in found.items() if name not in several}


def _pipeline(two_level: TwoLevelPlan, refined: Refined | None) -> tuple[Plan, tuple[int, ...]]:
    """The pipeline's plan, and the rank of every stage."""
    if refined is not None:
        simulation = refined.outcome.simulation
        assert simulation is not None
        return simulation.plan, tuple(int(rank) for rank in simulation.timeline.schedule.stage_ranks)
    stages = two_level.stages
    kinds = {stage.cost.recompute for stage in stages} - {NONE}
    plan = Plan(
        schedule=two_level.schedule,
        num_microbatches=two_level.num_microbatches,
        layers=(tuple(stage.end - stage.first for stage in stages),),
        recompute={
            kind: (tuple((stage.end - stage.first) * (stage.cost.recompute == kind) for stage in stages),)
            for kind in kinds
        },
    )
    return plan, tuple(range(len(stages)))


def placed_simulation(two_level: TwoLevelPlan, refined: Refined | None, provider: ShardedStages) -> Simulation:
    """The pipeline simulated, with the times of each message."""
    if refined is not None:
        assert refined.outcome.simulation is not None
        assert refined.timeline is not None
        return replace(refined.outcome.simulation, timeline=refined.timeline)
    plan, _ = _pipeline(two_level, None)
    found = simulate(network_as_placed(two_level, provider), plan, communication=two_level.communication)
    return replace(found, timeline=two_level.timeline)


def network_as_placed(two_level: TwoLevelPlan, provider: ShardedStages) -> Network:
    """The network with every layer as its own stage's submesh and sharding has it.

    Working memory differs between stages and is one number of a network: it is that of the least, and the first layer
    of another stage holds the rest as if it were parameters.
    """
    networks = [provider.network_on(stage.submesh, stage.cost.sharding) for stage in two_level.stages]
    constant = min(network.constant_bytes for network in networks)
    layers: list[Layer] = []
    for stage, network in zip(two_level.stages, networks, strict=True):
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
