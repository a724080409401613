"""The two-level plan of a model: operators sharded on every submesh, stages chosen, the pipeline refined."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from evenflow.auto.placed_stages import PlacedStage, placed_simulation, placed_stages
from evenflow.auto.refine import Refined, Refinement, refine
from evenflow.auto.stages.inter_operator import InterAnswer, TwoLevelPlan, plan_stages
from evenflow.auto.stages.sharded_stages import ShardedStages, sharded_stages
from evenflow.auto.trace.captured_layers import capture_layers
from evenflow.cluster.accelerators import A100, Accelerator
from evenflow.cluster.cluster import Cluster
from evenflow.cluster.mesh_plan import MeshPlan
from evenflow.errors import InputError
from evenflow.simulate import Simulation
from evenflow.torch_model.parts import ModelRow

if TYPE_CHECKING:
    import torch
    from torch import nn

ADAM_STATE_BYTES = 12
"""Of mixed precision beside a 16-bit parameter and its gradient: a 32-bit copy and two moments. [ZeRO, §3.1]"""

EVEN_LAYERS_PER_DEVICE = 4
"""Of a model that does not repeat itself: enough for even stages, few enough to solve each."""


def _silent(_words: str) -> None:
    """No progress."""


@dataclass(frozen=True, kw_only=True)
class AutoPlan:
    """The answer, with its evidence."""

    row: ModelRow
    cluster: Cluster
    num_microbatches: int
    provider: ShardedStages
    inter: InterAnswer
    refinement: Refinement | None
    """None where there is no plan, and where no near plan has equal submeshes."""
    notes: tuple[str, ...] = ()
    """What a user should know about the times and the memory, a sentence each."""

    @property
    def two_level(self) -> TwoLevelPlan | None:
        """The near-best plan by equation 2 with the shortest simulated step."""
        return self.inter.shortest

    @property
    def refined(self) -> Refined | None:
        """The exact solver's pipeline, where it is shorter than the two-level plan."""
        return self.refinement.best if self.refinement else None

    @property
    def status(self) -> str:
        """``infeasible``; else how far it is proven: ``optimal`` or ``feasible``."""
        if self.two_level is None:
            return "infeasible"
        if self.refined:
            return self.refined.outcome.status.value
        return "optimal" if self.two_level.step_ns == self.two_level.lower_bound_ns else "feasible"

    @cached_property
    def stages(self) -> tuple[PlacedStage, ...]:
        """What runs where, in the order of the model; nothing without a plan."""
        if self.two_level is None:
            return ()
        return placed_stages(self._base, self.refined, self.provider, self.row)

    @property
    def mesh_plan(self) -> MeshPlan:
        """What running it needs, as `evenflow.run.pipeline` takes it. Only where there is a plan."""
        return MeshPlan(cluster=self.cluster, stages=tuple(stage.on_mesh() for stage in self.stages))

    @cached_property
    def simulation(self) -> Simulation:
        """The pipeline on its submeshes, each message with its own time. Only where there is a plan."""
        return placed_simulation(self._base, self.refined, self.provider)

    @property
    def _base(self) -> TwoLevelPlan:
        """The plan with the submeshes of the answer."""
        assert self.two_level is not None
        return _with_equal_submeshes(self.inter) or self.two_level if self.refined else self.two_level


def plan(
    model: "nn.Module | Sequence[nn.Module]",
    example_batch: "torch.Tensor | tuple[object, ...] | dict[str, object]",
    cluster: Cluster,
    *,
    num_microbatches: int = 16,
    head: "nn.Module | None" = None,
    tail: "nn.Module | None" = None,
    accelerator: Accelerator | None = A100,
    optimizer_bytes_per_parameter: int = ADAM_STATE_BYTES,
    schedule: str = "1f1b",
    time_limit_s: float = 60.0,
    processes: int = 1,
) -> AutoPlan:
    """Stages, their submeshes and the sharding of every operator of a model, as `plan_row`.

    `model` is any module that torch.export takes, and is cut where one tensor crosses (`exported_row`); or a row of
    layers, each of which takes what the one before gives: an ``nn.Sequential``, an ``nn.ModuleList`` or a list, where
    `head` and `tail` go with the first and the last of them. `example_batch` is one microbatch for all devices of a
    stage together: a tensor, for other modules than rows also a tuple of arguments or a dict of keywords. Everything
    may be on the meta device. Without an `accelerator` computation costs nothing, so that stages are chosen by
    communication alone. Raises InputError where a model or a layer cannot be traced.
    """
    from evenflow.torch_model.rows import is_row, model_row

    if is_row(model):
        row = model_row(model, example_batch, head=head, tail=tail)
    else:
        from evenflow.auto.row.exported_row import exported_row

        if head is not None or tail is not None:
            raise InputError(
                value=type(model).__name__,
                rule="head and tail go with layers in a row: an nn.Sequential, an nn.ModuleList or a list of modules",
                place="model",
                remedy="leave them out where they are parts of this module",
            )
        row = exported_row(model, example_batch, most_even_layers=EVEN_LAYERS_PER_DEVICE * cluster.num_devices)
    return plan_row(
        row,
        cluster,
        num_microbatches=num_microbatches,
        accelerator=accelerator,
        optimizer_bytes_per_parameter=optimizer_bytes_per_parameter,
        schedule=schedule,
        time_limit_s=time_limit_s,
        processes=processes,
    )


def plan_row(
    row: ModelRow,
    cluster: Cluster,
    *,
    num_microbatches: int,
    accelerator: Accelerator | None,
    optimizer_bytes_per_parameter: int = ADAM_STATE_BYTES,
    schedule: str = "1f1b",
    time_limit_s: float = 60.0,
    processes: int = 1,
    progress: Callable[[str], None] = _silent,
) -> AutoPlan:
    """The two-level plan. `time_limit_s` bounds each integer program of a sharding, and the refinement as a whole.

    Without an accelerator computation costs nothing, so stages are chosen by communication alone.
    """
    from evenflow.auto.row.layer_kinds import kinds_of

    progress("tracing the layers")
    provider = sharded_stages(
        capture_layers(*kinds_of(row.parts)),
        cluster,
        name=row.name,
        has_head=bool(row.head),
        has_tail=bool(row.tail),
        num_microbatches=num_microbatches,
        accelerator=accelerator,
        optimizer_bytes_per_parameter=optimizer_bytes_per_parameter,
        time_limit_s=time_limit_s,
        processes=processes,
        progress=progress,
    )
    progress("choosing the stages")
    inter = plan_stages(
        lambda larger: replace(provider, cluster=larger), cluster, num_microbatches=num_microbatches, schedule=schedule
    )
    equal = _with_equal_submeshes(inter)
    refinement = None
    if inter.shortest is not None and equal is not None:
        progress("refining the pipeline")
        refinement = refine(equal, provider, time_limit_s=time_limit_s)
        if refinement is not None:
            refinement = replace(refinement, two_level_ns=inter.shortest.timeline.makespan_ns)
    return AutoPlan(
        row=row,
        cluster=cluster,
        num_microbatches=num_microbatches,
        provider=provider,
        inter=inter,
        refinement=refinement,
    )


def _with_equal_submeshes(inter: InterAnswer) -> TwoLevelPlan | None:
    """The shortest simulated plan whose stages have equal submeshes, which the exact solver takes for equal ranks."""
    equal = [one for one in inter.alternatives if len({stage.submesh for stage in one.stages}) == 1]
    return min(equal, key=lambda one: one.timeline.makespan_ns, default=None)
