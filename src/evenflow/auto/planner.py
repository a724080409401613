"""The two-level plan of a model: operators sharded on every submesh, stages chosen, the pipeline refined.

row of layers -> costs of stages on submeshes -> stages -> refinement -> what runs where

Every step takes the values of those before it and returns one; `plan_row` hands them down.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evenflow.auto.deadline import Deadline
from evenflow.auto.fixing.fixed import Fixed
from evenflow.auto.kept_ways import restricted
from evenflow.auto.placed_pipeline import PlacedPipeline, PlacedStage, place, use_of
from evenflow.auto.refine import Refined, Refinement, refine
from evenflow.auto.sharding.overlap import USUAL, Overlap
from evenflow.auto.stages.mesh_sharding import MeshSharding
from evenflow.auto.stages.meshes_tried import sharded_stages
from evenflow.auto.stages.plain_grids import with_plain_grids
from evenflow.auto.stages.request import ADAM_STATE_BYTES, TIME_LIMIT_S, TwoLevelRequest, silent
from evenflow.auto.stages.sharded_stages import ShardedStages
from evenflow.auto.stages.stage_search import plan_stages
from evenflow.auto.stages.two_level_plan import StagesOutcome, TwoLevelPlan
from evenflow.auto.wording.stage_use import StageUse
from evenflow.cluster import A100, Accelerator, Cluster, MeshPlan, Submesh
from evenflow.errors import InputError
from evenflow.interruption import answer_exists, was_interrupted
from evenflow.language import _, joined
from evenflow.simulate import Simulation
from evenflow.solve import Status
from evenflow.torch_model.parts import ModelRow

if TYPE_CHECKING:
    import torch
    from torch import nn

EVEN_LAYERS_PER_DEVICE = 4
"""Layers per device of a model that does not repeat itself: enough for even stages, few enough to solve each."""


@dataclass(frozen=True, kw_only=True)
class AutoPlan:
    """The two-level plan, with its evidence, or why there is none."""

    row: ModelRow
    request: TwoLevelRequest
    provider: ShardedStages
    """The costs of stages on the submeshes of the cluster."""
    search: StagesOutcome
    """The stages that were chosen, with alternatives."""
    refinement: Refinement | None
    """None where there is no plan, and where no near plan has equal submeshes."""
    pipeline: PlacedPipeline | None
    """None where there is no plan."""
    is_own: bool = False
    """Whether it is a person's plan that was priced, and nothing was chosen but the sharding of its operators."""
    notes: tuple[str, ...] = ()
    """Sentences that a user should know about the times and the memory."""

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
        """The near-best plan by equation 2, or the plain one, that has the shortest simulated step."""
        return self.search.shortest

    @property
    def refined(self) -> Refined | None:
        """The exact solver's pipeline, where it is shorter than the two-level plan."""
        return self.refinement.best if self.refinement else None

    @property
    def status(self) -> Status:
        """Whether the model fits, and whether the plan is proven to be the shortest."""
        if self.two_level is None:
            return Status.INFEASIBLE
        if self.provider.left_out:
            return Status.FEASIBLE
        if self.is_own:
            return Status.FEASIBLE
        if self.refined:
            return self.refined.outcome.status
        is_proven = self.two_level.step_ns == self.two_level.lower_bound_ns
        return Status.OPTIMAL if is_proven else Status.FEASIBLE

    @property
    def stages(self) -> tuple[PlacedStage, ...]:
        """The stages in the order of the model, with what runs where; empty without a plan."""
        return self.pipeline.stages if self.pipeline else ()

    def use(self, span: tuple[int, int], submesh: Submesh, sharding: MeshSharding) -> StageUse:
        """Return what the devices of a submesh are used for by layers `span` of the body under a sharding."""
        return use_of(span, submesh, sharding, self.provider, self.row)

    @property
    def mesh_plan(self) -> MeshPlan:
        """The plan as `evenflow.run.pipeline` takes it. Only where there is a plan."""
        return self._placed.mesh_plan

    @property
    def simulation(self) -> Simulation:
        """The pipeline on its submeshes, each message with its own time. Only where there is a plan."""
        return self._placed.simulation

    @property
    def _placed(self) -> PlacedPipeline:
        assert self.pipeline is not None
        return self.pipeline


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
    overlap: Overlap = USUAL,
    schedule: str = "1f1b",
    fixed: Fixed | None = None,
    time_limit_s: float = TIME_LIMIT_S,
    processes: int = 1,
) -> AutoPlan:
    """Return the stages of a model, their submeshes and the sharding of every operator.

    `model` is any module that torch.export takes, and is cut where one tensor crosses (`exported_row`); or a row of
    layers, each of which takes what the one before hands over: an ``nn.Sequential``, an ``nn.ModuleList`` or a list,
    where `head` and `tail` go with the first and the last of them. `example_batch` is one microbatch for all devices of
    a stage together: a tensor, for other modules than rows also a tuple of arguments or a dict of keywords. Everything
    may be on the meta device. The whole answer takes `time_limit_s` seconds: what there is no time for is left out, and
    told in a note. The other arguments are those of `TwoLevelRequest`.

    Raises:
        InputError: a model or a layer that cannot be traced; no time for any plan.
    """
    request = TwoLevelRequest(
        cluster=cluster,
        num_microbatches=num_microbatches,
        accelerator=accelerator,
        optimizer_bytes_per_parameter=optimizer_bytes_per_parameter,
        overlap=overlap,
        schedule=schedule,
        fixed=fixed or Fixed(),
        deadline=Deadline.after(time_limit_s),
        processes=processes,
    )
    from evenflow.torch_model.rows import is_row, row_with_inputs

    if is_row(model):
        return plan_row(row_with_inputs(model, example_batch, head=head, tail=tail), request)
    if head is not None or tail is not None:
        raise InputError(
            value=type(model).__name__,
            rule=_("must be an nn.Sequential, an nn.ModuleList or a list of modules where head or tail are given"),
            place="model",
            remedy=_("leave them out where they are parts of this module"),
        )
    from evenflow.auto.row.exported_row import exported_row

    most_layers = EVEN_LAYERS_PER_DEVICE * cluster.num_devices
    return plan_row(exported_row(model, example_batch, most_even_layers=most_layers), request)


def plan_row(row: ModelRow, request: TwoLevelRequest, *, progress: Callable[[str], None] = silent) -> AutoPlan:
    """Return the two-level plan of a row of layers; `progress` is told each step before it begins."""
    provider = restricted(sharded_stages(row, request, progress=progress), request.fixed)
    progress(_("choosing the stages"))
    num_stages = request.fixed.pipeline
    search = plan_stages(provider, schedule=request.schedule, num_stages=num_stages, deadline=request.deadline)
    search = with_plain_grids(search, provider, schedule=request.schedule, num_stages=num_stages)
    if search.shortest is not None:
        answer_exists()
    progress(_("refining the pipeline"))
    refinement = refine(search, provider, deadline=request.deadline)
    return AutoPlan(
        row=row,
        request=request,
        provider=provider,
        search=search,
        refinement=refinement,
        pipeline=place(search, refinement, provider, row),
        notes=(request.overlap.note(), *_left_out(provider, request.deadline)),
    )


def _left_out(provider: ShardedStages, deadline: Deadline) -> Iterator[str]:
    """Yield a sentence that says what there was no time for."""
    if provider.left_out:
        sharded = sum(len(meshes) for meshes in provider.costs.values())
        yield _(
            "{why}, and no bound holds for them: operators were sharded on {sharded} of {all} meshes, not on {names}",
            why=_("some meshes were left out when the signal came")
            if was_interrupted()
            else _("some meshes were left out when the {limit_s:g} seconds were over", limit_s=deadline.limit_s),
            sharded=sharded,
            all=sharded + len(provider.left_out),
            names=joined(provider.left_out),
        )
