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
from evenflow.solve.outcome import Status
from evenflow.torch_model.parts import ModelRow

if TYPE_CHECKING:
    import torch
    from torch import nn

ADAM_STATE_BYTES = 12
"""Bytes that mixed precision keeps beside a 16-bit parameter and its gradient: a 32-bit copy and two moments.
[ZeRO, arXiv:1910.02054, §3.1]"""

EVEN_LAYERS_PER_DEVICE = 4
"""Layers per device of a model that does not repeat itself: enough for even stages, few enough to solve each."""


def silent(_step: str) -> None:
    """Show no progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoLevelRequest:
    """What a two-level plan is asked for, beside the model."""

    cluster: Cluster
    num_microbatches: int = 16
    """Microbatches of one step."""
    accelerator: Accelerator | None = A100
    """Rates of one device. Without them computation costs nothing, and stages are chosen by communication alone."""
    optimizer_bytes_per_parameter: int = ADAM_STATE_BYTES
    """Bytes kept for each parameter beside itself and its gradient."""
    schedule: str = "1f1b"
    """The schedule that stages are chosen for; the refinement tries others."""
    time_limit_s: float = 60.0
    """Seconds for each integer program of a sharding, and for the refinement as a whole."""
    processes: int = 1
    """Processes that solve integer programs side by side."""


@dataclass(frozen=True, kw_only=True)
class AutoPlan:
    """A two-level plan with its evidence."""

    row: ModelRow
    request: TwoLevelRequest
    provider: ShardedStages
    inter: InterAnswer
    refinement: Refinement | None
    """None where there is no plan, and where no near-best plan has equal submeshes."""
    notes: tuple[str, ...] = ()
    """What a user should know about the times and the memory, a sentence each."""

    @property
    def cluster(self) -> Cluster:
        """The cluster that is planned for."""
        return self.request.cluster

    @property
    def num_microbatches(self) -> int:
        """Microbatches of one step."""
        return self.request.num_microbatches

    @property
    def two_level(self) -> TwoLevelPlan | None:
        """The near-best plan by equation 2 with the shortest simulated step."""
        return self.inter.shortest

    @property
    def refined(self) -> Refined | None:
        """The exact solver's pipeline, where it is shorter than the two-level plan."""
        return self.refinement.best if self.refinement else None

    @property
    def status(self) -> Status:
        """Whether the model fits, and whether the plan is proven to be the shortest."""
        if self.two_level is None:
            return Status.INFEASIBLE
        if self.refined:
            return self.refined.outcome.status
        is_proven = self.two_level.step_ns == self.two_level.lower_bound_ns
        return Status.OPTIMAL if is_proven else Status.FEASIBLE

    @cached_property
    def stages(self) -> tuple[PlacedStage, ...]:
        """The stages in the order of the model, with what runs where; empty without a plan."""
        if self.two_level is None:
            return ()
        return placed_stages(self._base, self.refined, self.provider, self.row)

    @property
    def mesh_plan(self) -> MeshPlan:
        """What `evenflow.run.pipeline` needs to run the plan, which there must be."""
        return MeshPlan(cluster=self.cluster, stages=tuple(stage.on_mesh() for stage in self.stages))

    @cached_property
    def simulation(self) -> Simulation:
        """The pipeline of the plan, which there must be, on its submeshes, each message with its own time."""
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
    """Return the stages of a model, their submeshes and the sharding of every operator.

    `model` is any module that torch.export takes, and is cut where one tensor crosses (`exported_row`); or a row of
    layers, each of which takes what the one before hands over: an ``nn.Sequential``, an ``nn.ModuleList`` or a list,
    where `head` and `tail` go with the first and the last of them. `example_batch` is one microbatch for all devices of
    a stage together: a tensor, for other modules than rows also a tuple of arguments or a dict of keywords. Everything
    may be on the meta device. The other arguments are those of `TwoLevelRequest`.

    Raises:
        InputError: a model or a layer that cannot be traced.
    """
    from evenflow.torch_model.rows import is_row, model_row

    request = TwoLevelRequest(
        cluster=cluster,
        num_microbatches=num_microbatches,
        accelerator=accelerator,
        optimizer_bytes_per_parameter=optimizer_bytes_per_parameter,
        schedule=schedule,
        time_limit_s=time_limit_s,
        processes=processes,
    )
    if is_row(model):
        return plan_row(model_row(model, example_batch, head=head, tail=tail), request)

    from evenflow.auto.row.exported_row import exported_row

    if head is not None or tail is not None:
        raise InputError(
            value=type(model).__name__,
            rule="must be an nn.Sequential, an nn.ModuleList or a list of modules where head or tail are given",
            place="model",
            remedy="leave them out where they are parts of this module",
        )
    return plan_row(
        exported_row(model, example_batch, most_even_layers=EVEN_LAYERS_PER_DEVICE * cluster.num_devices), request
    )


def plan_row(row: ModelRow, request: TwoLevelRequest, *, progress: Callable[[str], None] = silent) -> AutoPlan:
    """Return the two-level plan of a row of layers; `progress` is told each step before it begins."""
    from evenflow.auto.row.layer_kinds import kinds_of

    progress("tracing the layers")
    provider = sharded_stages(
        capture_layers(*kinds_of(row.parts)),
        request.cluster,
        name=row.name,
        has_head=bool(row.head),
        has_tail=bool(row.tail),
        num_microbatches=request.num_microbatches,
        accelerator=request.accelerator,
        optimizer_bytes_per_parameter=request.optimizer_bytes_per_parameter,
        time_limit_s=request.time_limit_s,
        processes=request.processes,
        progress=progress,
    )
    progress("choosing the stages")
    inter = plan_stages(
        lambda larger: replace(provider, cluster=larger),
        request.cluster,
        num_microbatches=request.num_microbatches,
        schedule=request.schedule,
    )
    refinement = _refined(inter, provider, request, progress)
    return AutoPlan(row=row, request=request, provider=provider, inter=inter, refinement=refinement)


def _refined(
    inter: InterAnswer, provider: ShardedStages, request: TwoLevelRequest, progress: Callable[[str], None]
) -> Refinement | None:
    """Let the exact solver try the submeshes of the shortest plan it can take."""
    equal = _with_equal_submeshes(inter)
    if inter.shortest is None or equal is None:
        return None
    progress("refining the pipeline")
    refinement = refine(equal, provider, time_limit_s=request.time_limit_s)
    if refinement is None:
        return None
    return replace(refinement, two_level_ns=inter.shortest.timeline.makespan_ns)


def _with_equal_submeshes(inter: InterAnswer) -> TwoLevelPlan | None:
    """Return the shortest simulated plan with equal submeshes, which the exact solver takes for equal ranks."""
    equal = [one for one in inter.alternatives if len({stage.submesh for stage in one.stages}) == 1]
    return min(equal, key=lambda one: one.timeline.makespan_ns, default=None)
