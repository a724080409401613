"""Two-level plans beside hand-written plans, all simulated with the same costs of layers and links.

Hand-written plans are data x tensor x pipeline grids: layers dealt evenly, Megatron's column-row split inside each,
all layers recomputed where nothing less fits (`evenflow.auto.stages.analytic` on the times of one device). Working
memory is not counted for them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from evenflow.auto.config_planner import plan_config
from evenflow.auto.planner import AutoPlan
from evenflow.auto.sharding.ways import Level
from evenflow.auto.stages.analytic import AnalyticStages
from evenflow.auto.stages.mesh_sharding import MeshSharding
from evenflow.auto.stages.stage_provider import StageCost
from evenflow.auto.stages.two_level_plan import SubmeshStage, TwoLevelPlan
from evenflow.cluster.cluster import Cluster, Link, Submesh, assign, submeshes
from evenflow.units import milliseconds

SEQUENCE = 4096
FAST, SLOW = Link(bytes_per_s=200 * 10**9, latency_ns=5_000), Link(bytes_per_s=25 * 10**9, latency_ns=20_000)
MEMORY_BYTES = 80 * 2**30


@dataclass(frozen=True)
class Setting:
    name: str
    hidden: int
    layers: int
    mesh: tuple[int, int]
    microbatches: int
    microbatch: int
    """Sequences of a microbatch."""


SETTINGS = (
    Setting("1B, 1x4, large batch", 2048, 16, (1, 4), 8, 16),
    Setting("7B, 1x4, small batch", 4096, 32, (1, 4), 16, 1),
    Setting("7B, 2x4, large batch", 4096, 32, (2, 4), 16, 8),
    Setting("7B, 4x2, small batch", 4096, 32, (4, 2), 16, 2),
    Setting("20B, 2x4, small batch", 6144, 44, (2, 4), 16, 4),
)


@dataclass(frozen=True)
class Row:
    setting: Setting
    data_ns: int | None
    """The step under pure data parallelism; None where it does not fit."""
    rule_ns: int | None
    """The step with tensor parallelism inside nodes and a pipeline over nodes."""
    grid_ns: int | None
    """The step of the best grid."""
    grid: str
    two_level_ns: int
    refined_ns: int
    shape: str


def measure(setting: Setting) -> Row:
    found = planned(setting)
    alone, fastest = Submesh(1, 1), MeshSharding((1,), Level.FASTEST)
    network = replace(found.provider.network_on(alone, fastest), constant_bytes=0)
    layer = found.provider.boundary(1, alone, fastest, range(1))
    analytic = AnalyticStages(
        network=network,
        cluster=found.cluster,
        num_microbatches=setting.microbatches,
        samples=setting.microbatch,
        boundary_bytes=layer.bytes_of(layer.boxes[0]),
    )
    grids = dict(even_plans(analytic, setting.microbatches))
    nodes, width = setting.mesh
    best = min(grids, key=lambda name: grids[name], default="")
    assert found.two_level is not None
    return Row(
        setting=setting,
        data_ns=grids.get(f"data {nodes * width} x tensor 1 x pipeline 1"),
        rule_ns=grids.get(f"data 1 x tensor {width} x pipeline {nodes}"),
        grid_ns=grids.get(best),
        grid=best or "none fits",
        two_level_ns=found.two_level.timeline.makespan_ns,
        refined_ns=found.simulation.makespan_ns,
        shape=", ".join(
            f"{stage.end - stage.first} layers ({sum(stage.recompute.values())} recomputed) on {stage.sharding}"
            for stage in found.stages
        ),
    )


def planned(setting: Setting) -> AutoPlan:
    config = {
        "model_type": "llama",
        "hidden_size": setting.hidden,
        "intermediate_size": setting.hidden * 8 // 3 // 256 * 256,
        "num_hidden_layers": setting.layers,
        "num_attention_heads": setting.hidden // 128,
        "vocab_size": 32000,
    }
    nodes, width = setting.mesh
    return plan_config(
        config,
        Cluster(num_nodes=nodes, devices_per_node=width, memory_bytes=MEMORY_BYTES, intra=FAST, inter=SLOW),
        sequence=SEQUENCE,
        microbatch=setting.microbatch,
        num_microbatches=setting.microbatches,
        time_limit_s=30,
        processes=2,
        name=setting.name,
    )


def even_plans(analytic: AnalyticStages, num_microbatches: int) -> Iterator[tuple[str, int]]:
    """Return the simulated step of every grid that fits, by its name."""
    cluster, num_layers = analytic.cluster, analytic.network.num_layers
    for shape in submeshes(cluster):
        count, rest = divmod(cluster.num_devices, shape.num_devices)
        if rest or count > num_layers:
            continue
        bounds = [num_layers * stage // count for stage in range(count + 1)]
        for sharding in analytic.shardings(shape):
            times = [
                one.timeline.makespan_ns
                for recompute in analytic.network.kinds
                if (one := even_plan(analytic, shape, bounds, sharding, recompute, num_microbatches))
            ]
            if times:
                yield f"{sharding} x pipeline {count}", min(times)


def even_plan(
    analytic: AnalyticStages,
    shape: Submesh,
    bounds: list[int],
    sharding: MeshSharding,
    recompute: str,
    num_microbatches: int,
) -> TwoLevelPlan | None:
    """Simulate a 1F1B pipeline on equal submeshes; None where it does not fit."""
    cluster, count = analytic.cluster, len(bounds) - 1
    stages = []
    for place, (devices, (first, end)) in enumerate(
        zip(assign(cluster, [shape] * count), pairwise(bounds), strict=True)
    ):
        cost = _cost(analytic, first, end, shape, sharding, recompute)
        held = cost.static_bytes + min(num_microbatches, count - place) * cost.activation_bytes
        if held > cluster.memory_bytes:
            return None
        stages.append(SubmeshStage(first=first, end=end, submesh=shape, devices=devices, cost=cost))
    return TwoLevelPlan(
        cluster=cluster,
        schedule="1f1b",
        num_microbatches=num_microbatches,
        stages=tuple(stages),
        boundaries=tuple(
            (
                analytic.boundary(after.first, shape, sharding, before.devices),
                analytic.boundary(after.first, shape, sharding, after.devices),
            )
            for before, after in pairwise(stages)
        ),
        step_ns=0,
        lower_bound_ns=0,
    )


def _cost(
    analytic: AnalyticStages, first: int, end: int, shape: Submesh, sharding: MeshSharding, recompute: str
) -> StageCost:
    return next(
        cost for cost in analytic.options(first, end, shape) if (cost.sharding, cost.recompute) == (sharding, recompute)
    )


def report(rows: list[Row]) -> str:
    """Return the table, in milliseconds of a step."""
    header = ["setting", "data parallel", "tensor in node", "best grid", "two-level", "refined", "gain", "best grid is"]
    lines = [
        [
            row.setting.name,
            _ms(row.data_ns),
            _ms(row.rule_ns),
            _ms(row.grid_ns),
            _ms(row.two_level_ns),
            _ms(row.refined_ns),
            "-" if row.grid_ns is None else f"{100 * (1 - row.refined_ns / row.grid_ns):.1f} %",
            row.grid,
        ]
        for row in rows
    ]
    widths = [max(len(line[column]) for line in [header, *lines]) for column in range(len(header))]
    text = "\n".join(
        "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip()
        for line in [header, *lines]
    )
    return text + "\n\n" + "\n".join(f"{row.setting.name}: {row.shape}" for row in rows)


def _ms(time_ns: int | None) -> str:
    return "does not fit" if time_ns is None else f"{milliseconds(time_ns):,.1f}"
