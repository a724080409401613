"""Two-level plans beside plans as people write them, all priced and simulated alike.

Hand-written plans are those that every answer of `evenflow auto` has beside it: grids of data or tensor parallelism, a
stage of ZeRO and a pipeline, layers dealt evenly, one recompute kind for all layers (`StagesOutcome.grids`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from evenflow.cluster.cluster import Cluster, Link
from evenflow.units import milliseconds
from evenflow_torch.auto.config_planner import plan_config
from evenflow_torch.auto.planner import AutoPlan
from evenflow_torch.auto.sharding.ways import AxisRole, PlainWay
from evenflow_torch.auto.stages.two_level_plan import PlainGrid

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
    data: PlainGrid | None
    """The best plan that only splits samples, with whatever stage of ZeRO; None where none fits."""
    rule: PlainGrid | None
    """The best plan with tensor parallelism inside nodes and a pipeline over nodes."""
    plain: PlainGrid | None
    """The best plan as people write it."""
    two_level_ns: int
    """The best of the stages that were chosen freely."""
    answer_ns: int
    shape: str


def measure(setting: Setting) -> Row:
    found = planned(setting)
    nodes = setting.mesh[0]
    free = replace(found.search, grids=()).shortest
    assert free is not None
    return Row(
        setting=setting,
        data=_best(found, lambda grid: grid.num_stages == 1 and AxisRole.TENSOR not in _way(grid).roles),
        rule=_best(found, lambda grid: grid.num_stages == nodes and _way(grid).roles == (AxisRole.TENSOR,)),
        plain=_best(found, lambda _grid: True),
        two_level_ns=free.timeline.makespan_ns,
        answer_ns=found.simulation.makespan_ns,
        shape=", ".join(
            f"{stage.end - stage.first} layers ({sum(stage.recompute.values())} recomputed) on {stage.submesh}: "
            f"{stage.use.words}"
            for stage in found.stages
        ),
    )


def _way(grid: PlainGrid) -> PlainWay:
    assert isinstance(grid.sharding.way, PlainWay)
    return grid.sharding.way


def _best(found: AutoPlan, is_one: Callable[[PlainGrid], bool]) -> PlainGrid | None:
    """The shortest plain grid of a kind that fits."""
    fitting = [grid for grid in found.search.grids if grid.plan and is_one(grid)]
    return min(fitting, key=_ns, default=None)


def _ns(grid: PlainGrid) -> int:
    assert grid.plan is not None
    return grid.plan.timeline.makespan_ns


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
        time_limit_s=120,
        name=setting.name,
    )


def report(rows: list[Row]) -> str:
    """Return the table, in milliseconds of a step."""
    header = [
        "setting",
        "data parallel",
        "tensor in node",
        "best plain",
        "two-level",
        "answer",
        "gain",
        "best plain is",
    ]
    lines = [
        [
            row.setting.name,
            _ms(row.data),
            _ms(row.rule),
            _ms(row.plain),
            f"{milliseconds(row.two_level_ns):,.1f}",
            f"{milliseconds(row.answer_ns):,.1f}",
            "-" if row.plain is None else f"{100 * (1 - row.answer_ns / _ns(row.plain)):.1f} %",
            "none fits" if row.plain is None else row.plain.name,
        ]
        for row in rows
    ]
    widths = [max(len(line[column]) for line in [header, *lines]) for column in range(len(header))]
    text = "\n".join(
        "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip()
        for line in [header, *lines]
    )
    return text + "\n\n" + "\n".join(f"{row.setting.name}: {row.shape}" for row in rows)


def _ms(grid: PlainGrid | None) -> str:
    return "does not fit" if grid is None else f"{milliseconds(_ns(grid)):,.1f}"
