"""Plans for the GPT models of Alpa's evaluation, beside the strategies that its authors published for them.

Sizes and strategies are those of alpa-projects/alpa, benchmark/alpa/suite_auto_gpt.py (`perf_test_suite`, found for
p3.16xlarge) and suite_manual_gpt.py (`gpt_specs`); Alpa, arXiv:2201.12023, §8.1: 8 V100 of 16 GB a node, 25 Gb/s
between nodes, sequences of 1024 tokens, 1024 of them a step, half precision, all layers recomputed.

Both are priced with evenflow's costs and simulated: nothing here is a measurement but the column that says so.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from pathlib import Path

import click

from evenflow.cluster import Accelerator, Cluster, Submesh, assign
from evenflow.model import FULL
from evenflow.profiles.accelerator_file import accelerator_given
from evenflow.profiles.cluster_file import read_cluster_file
from evenflow_torch.auto.config_planner import plan_config
from evenflow_torch.auto.planner import AutoPlan
from evenflow_torch.auto.sharding.ways import AxisRole, PlainWay
from evenflow_torch.auto.stages.in_flight import in_flight_microbatches
from evenflow_torch.auto.stages.sharded_stages import ShardedStages
from evenflow_torch.auto.stages.stage_provider import StageCost
from evenflow_torch.auto.stages.two_level_plan import SubmeshStage, TwoLevelPlan

CLUSTER = Path(__file__).parents[1] / "examples" / "cluster_p3_16xlarge.yaml"
SEQUENCE, VOCABULARY = 1024, 51_200
DATA, TENSOR = AxisRole.DATA, AxisRole.TENSOR


@dataclass(frozen=True)
class Published:
    """One stage of a published strategy."""

    layers: int
    devices: tuple[int, int]
    roles: tuple[AxisRole, ...] | None = ()
    """What every axis of the logical mesh is for, where there is more than one device; None: Alpa chose freely how to
    shard operators on a mesh of one axis, and this is not published."""


@dataclass(frozen=True)
class Case(ABC):
    """A model on its devices, and the stages that are published for it."""

    name: str
    mesh: tuple[int, int]
    microbatches: int
    stages: tuple[Published, ...]

    @abstractmethod
    def planned(self, *, time_limit_s: float) -> AutoPlan:
        """Return the two-level plan of the model."""

    def cluster(self, device: Accelerator) -> Cluster:
        """Return the nodes of Alpa's evaluation that the case has."""
        nodes, width = self.mesh
        return replace(read_cluster_file(CLUSTER, device), num_nodes=nodes, devices_per_node=width)


@dataclass(frozen=True)
class GptCase(Case):
    """A GPT."""

    hidden: int
    layers: int
    heads: int
    sequences: int = 1024
    """Of a step."""

    def planned(self, *, time_limit_s: float) -> AutoPlan:
        """Return the two-level plan in half precision."""
        device = accelerator_given("v100-16")
        config = {
            "model_type": "gpt2",
            "n_embd": self.hidden,
            "n_layer": self.layers,
            "n_head": self.heads,
            "n_positions": SEQUENCE,
            "vocab_size": VOCABULARY,
            **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0),
        }
        return plan_config(
            config,
            self.cluster(device),
            sequence=SEQUENCE,
            microbatch=self.sequences // self.microbatches,
            num_microbatches=self.microbatches,
            accelerator=device,
            dtype="fp16",
            time_limit_s=time_limit_s,
            name=self.name,
        )


CASES = (
    GptCase("0.35B", (1, 1), 512, (Published(24, (1, 1)),), 1024, 24, 16),
    GptCase("0.76B", (1, 2), 128, (Published(12, (1, 1)),) * 2, 1536, 24, 16),
    GptCase("1.3B", (1, 4), 128, (Published(12, (1, 2), (DATA,)),) * 2, 2048, 24, 32),
    GptCase(
        "2.6B", (1, 8), 128,
        (Published(8, (1, 2), (DATA,)), Published(8, (1, 2), (DATA,)), Published(16, (1, 4), (DATA,))),
        2560, 32, 32,
    ),
    GptCase("2.6B-32", (1, 8), 4, (Published(16, (1, 4), (DATA, TENSOR)),) * 2, 2560, 32, 32, sequences=32),
    GptCase("6.7B", (2, 8), 64, (Published(16, (1, 8), (DATA, TENSOR)),) * 2, 4096, 32, 32),
    GptCase("15B", (4, 8), 128, (Published(12, (1, 8), (DATA, TENSOR)),) * 4, 5120, 48, 40),
    GptCase("39B", (8, 8), 1024, (Published(3, (1, 4), (TENSOR,)),) * 16, 8192, 48, 64),
)  # fmt: skip
MEASURED_S = {"2.6B-32": 2.425}
"""Steps that Alpa's authors measured: benchmark/alpa/README.md, the expected output on p3.16xlarge of April 2022."""


@dataclass(frozen=True)
class Row:
    case: Case
    published_ns: int | None
    """The step under the published strategy; None where it does not fit by these costs."""
    less_recomputed_ns: int | None
    """The same with the recompute kind on each stage with which it is fastest."""
    published_mb: float
    """The least that its fullest device can hold."""
    step_ns: int | None
    """The step of the plan; None where there is none."""
    shape: str
    seconds: float


def measure(case: Case, *, time_limit_s: float = 60.0) -> Row:
    """Plan one case and price its published strategy."""
    started = time.monotonic()
    found = case.planned(time_limit_s=time_limit_s)
    held, plan = priced(case, found.provider, FULL)
    _held, freer = priced(case, found.provider)
    return Row(
        case=case,
        published_ns=plan.timeline.makespan_ns if plan else None,
        less_recomputed_ns=freer.timeline.makespan_ns if freer else None,
        published_mb=held / 2**20,
        step_ns=found.simulation.makespan_ns if found.two_level else None,
        shape="; ".join(
            f"{stage.end - stage.first} layers ({sum(stage.recompute.values())} recomputed) on {stage.submesh}: "
            f"{stage.use.words}"
            for stage in found.stages
        ),
        seconds=time.monotonic() - started,
    )


def priced(case: Case, provider: ShardedStages, *kinds: str) -> tuple[int, TwoLevelPlan | None]:
    """Return what the published strategy holds at most, and its plan: the fastest where it fits.

    All layers of a stage are under one of `kinds` of recomputation, or under any. What data-parallel devices share of
    the state of parameters is not published: the stages share as little as fits.
    """
    ends = list(accumulate((stage.layers for stage in case.stages), initial=0))
    live = in_flight_microbatches("1f1b", num_microbatches=case.microbatches, most_stages=len(case.stages))
    options = [
        [
            (cost.static_bytes + live[len(case.stages) - place] * cost.activation_bytes, cost)
            for cost in _costs(provider, stage, first, end)
            if not kinds or cost.recompute in kinds
        ]
        for place, (stage, (first, end)) in enumerate(zip(case.stages, pairwise(ends), strict=True))
    ]
    if not all(options):
        message = f"{case.name}: a stage of the published strategy was not sharded in time; give --time-limit more"
        raise click.ClickException(message)
    least = max(min(held for held, _cost in stage) for stage in options)
    fits = [[cost for held, cost in stage if held <= provider.cluster.memory_bytes] for stage in options]
    if not all(fits):
        return least, None
    chosen = [min(stage, key=lambda cost: cost.cost_ns) for stage in fits]
    return least, _plan(case, provider, ends, chosen)


def _costs(provider: ShardedStages, stage: Published, first: int, end: int) -> Iterator[StageCost]:
    submesh = Submesh(*stage.devices)
    if stage.roles is None:
        one_axis = [sharding for sharding in provider.shardings(submesh) if max(sharding.mesh) == submesh.num_devices]
        for sharding in one_axis:
            yield from provider.stage_costs(first, end, submesh, sharding)
        return
    for sharding, reason in provider.plain(submesh):
        if reason:
            continue
        assert isinstance(sharding.way, PlainWay)
        roles = tuple(role for role, size in zip(sharding.way.roles, sharding.mesh, strict=True) if size > 1)
        if roles == stage.roles and (len(roles) < 2 or sharding.mesh == (2, submesh.num_devices // 2)):
            yield from provider.stage_costs(first, end, submesh, sharding)


def _plan(case: Case, provider: ShardedStages, ends: Sequence[int], costs: Sequence[StageCost]) -> TwoLevelPlan:
    shapes = [Submesh(*stage.devices) for stage in case.stages]
    stages = tuple(
        SubmeshStage(first=first, end=end, submesh=shape, devices=devices, cost=cost)
        for (first, end), shape, devices, cost in zip(
            pairwise(ends), shapes, assign(provider.cluster, shapes), costs, strict=True
        )
    )
    return TwoLevelPlan(
        cluster=provider.cluster,
        schedule="1f1b",
        num_microbatches=case.microbatches,
        stages=stages,
        boundaries=tuple(
            (
                provider.boundary(after.first, before.submesh, before.cost.sharding, before.devices, leaving=True),
                provider.boundary(after.first, after.submesh, after.cost.sharding, after.devices),
            )
            for before, after in pairwise(stages)
        ),
        step_ns=0,
        lower_bound_ns=0,
    )


def report(rows: Sequence[Row]) -> str:
    """Return the table, a line for each case, and below it the plans."""
    lines = [
        "model        devices  microbatches  Alpa's strategy s  MB a device  recomputing less s  two-level plan s    "
        "gain  planned in s  measured by Alpa's authors s",
    ]
    for row in rows:
        nodes, width = row.case.mesh
        gain = "-"
        if row.published_ns and row.step_ns:
            gain = f"{100 * (1 - row.step_ns / row.published_ns):.1f} %"
        lines.append(
            f"{row.case.name:11}  {nodes}x{width:<5}  {row.case.microbatches:12}  {_seconds(row.published_ns):>17}  "
            f"{row.published_mb:11,.0f}  {_seconds(row.less_recomputed_ns):>18}  {_seconds(row.step_ns):>16}  "
            f"{gain:>6}  {row.seconds:12.1f}  {MEASURED_S.get(row.case.name, '-'):>27}"
        )
    return "\n".join([*lines, "", *(f"{row.case.name}: {row.shape}" for row in rows)])


def _seconds(step_ns: int | None) -> str:
    return "does not fit" if step_ns is None else f"{step_ns / 1e9:.2f}"
