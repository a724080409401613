"""The two-level plan of a model: operators sharded on every submesh, stages chosen, the pipeline refined.

row of layers -> costs of stages on submeshes -> stages -> refinement -> what runs where

Every step takes the values of those before it and returns one; `plan_row` hands them down.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from evenflow.cluster import Cluster, MeshPlan, Submesh
from evenflow.errors import InputError
from evenflow.interruption import answer_exists, was_interrupted
from evenflow.language import _, joined
from evenflow.simulate import Simulation
from evenflow.solve import Status
from evenflow_torch.auto.deadline import Deadline
from evenflow_torch.auto.failed_trial import FailedTrial
from evenflow_torch.auto.kept_ways import restricted
from evenflow_torch.auto.placed_pipeline import PlacedPipeline, PlacedStage, place, use_of
from evenflow_torch.auto.refine import Refined, Refinement, refine
from evenflow_torch.auto.sharding.ways import MeshSharding
from evenflow_torch.auto.stages.meshes_tried import sharded_stages
from evenflow_torch.auto.stages.plain_grids import with_plain_grids
from evenflow_torch.auto.stages.request import TwoLevelRequest, silent
from evenflow_torch.auto.stages.sharded_stages import ShardedStages
from evenflow_torch.auto.stages.stage_search import plan_stages
from evenflow_torch.auto.stages.two_level_plan import StagesOutcome, TwoLevelPlan
from evenflow_torch.auto.wording.stage_use import StageUse
from evenflow_torch.models.parts import ModelRow


class BatchOutcome(StrEnum):
    """The result of trying a microbatch size; the value is the word in result files."""

    PLANNED = "planned"
    DOES_NOT_FIT = "does not fit"
    BOUNDED = "bound"
    """No plan with it takes less than its bound, which is no less than the best plan's step."""
    NO_TIME = "no time"


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedBatch:
    """A microbatch size, the number of microbatches it makes, and the step or bound found for it."""

    microbatch: int
    num_microbatches: int
    outcome: BatchOutcome
    step_ns: int | None = None
    """Nanoseconds of the simulated step; None where there is no plan."""
    lower_bound_ns: int | None = None
    """Nanoseconds that no plan with this size undercuts; None where it was not looked at."""


@dataclass(frozen=True, kw_only=True)
class AutoPlan:
    """The two-level plan of a model with the evidence for it, or the reason why there is none."""

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
    batches: tuple[TriedBatch, ...] = ()
    """The sizes of a microbatch that were considered, smallest first, where only the global batch was given."""
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
        """The plan, near-best by equation 2 or plain, with the shortest simulated step, before refinement."""
        return self.search.shortest

    @property
    def refined(self) -> Refined | None:
        """The exact solver's pipeline, where it is shorter than the two-level plan."""
        return self.refinement.best if self.refinement else None

    @property
    def status(self) -> Status:
        """Whether there is a plan, and whether it is proven shortest among the plans that `lower_bound_ns` covers."""
        if self.pipeline is None:
            return Status.INFEASIBLE
        is_proven = self.lower_bound_ns == int(self.simulation.makespan_ns)
        return Status.OPTIMAL if is_proven else Status.FEASIBLE

    @property
    def bound_holds_for_all(self) -> bool:
        """Whether `lower_bound_ns` holds for every plan, not only for stages on submeshes.

        It does where the plan was refined, or where the search for stages left something out.
        """
        covered = self.search.simulated_bound_ns is not None
        return bool(self.refined or self.provider.left_out or not covered)

    @property
    def lower_bound_ns(self) -> int | None:
        """Nanoseconds that no simulated step undercuts; None for a plan that was priced, not searched.

        Of stages on submeshes, each with one of the provider's shardings and at most two recompute kinds, in any order
        of whole backwards that holds as many microbatches as the schedule; where `bound_holds_for_all`, of any plan.
        """
        if self.pipeline is None or self.is_own:
            return None
        bound_ns = self.search.simulated_bound_ns
        if self.bound_holds_for_all or bound_ns is None:
            work = self.provider.work
            bound_ns = 0
            if work is not None:
                devices = self.cluster.num_devices
                bound_ns = work.step_ns(1, num_microbatches=self.num_microbatches, num_devices=devices)
        return min(bound_ns, int(self.simulation.makespan_ns))

    @property
    def stages(self) -> tuple[PlacedStage, ...]:
        """The stages in the order of the model, with what runs where; empty without a plan."""
        return self.pipeline.stages if self.pipeline else ()

    def use(self, span: tuple[int, int], submesh: Submesh, sharding: MeshSharding) -> StageUse:
        """Return what layers `span` of the body use the axes of a submesh for under a sharding."""
        return use_of(span, submesh, sharding, self.provider, self.row)

    @property
    def mesh_plan(self) -> MeshPlan:
        """The plan as `evenflow.run.pipeline` takes it; raises InputError without a plan."""
        return replace(self._placed.mesh_plan, expert_capacity=self.request.expert_capacity)

    @property
    def simulation(self) -> Simulation:
        """The pipeline on its submeshes, each message with its own time; raises InputError without a plan."""
        return self._placed.simulation

    @property
    def _placed(self) -> PlacedPipeline:
        if self.pipeline is None:
            shortage = self.search.shortage
            raise InputError(
                rule=_("must have a plan before it can be simulated or run"),
                place=self.row.name,
                remedy="" if shortage is None else shortage.message(self.cluster),
            )
        return self.pipeline


@dataclass(frozen=True, kw_only=True)
class SearchedRow:
    """A row of layers with the stages that were chosen for it, before the refinement."""

    row: ModelRow
    request: TwoLevelRequest
    provider: ShardedStages
    search: StagesOutcome
    faults: tuple[FailedTrial, ...] = ()
    """Shardings that were left out, since layers do not run under them."""

    def refined(self, deadline: Deadline) -> AutoPlan:
        """Return the plan, refined by the exact solver until `deadline`.

        Where some layer does not run as planned, it is the best plan without that sharding.

        Raises:
            InputError: nothing fits on those meshes that there was time for, or runs.
        """
        from evenflow_torch.auto.trial import first_fault

        plan = self._refined(deadline)
        fault = None if plan.pipeline is None else first_fault(plan.pipeline, self.provider, self.row)
        if fault is None:
            return plan
        left = self.provider.without(fault.submesh, fault.sharding)
        if not left.costs:
            raise InputError(
                value=fault.words,
                rule=_("must be a sharding under which layers run ({reason})", reason=fault.reason),
                place=fault.layer,
                remedy=_("write the layer so that torch can run it on parts, or decide for other degrees"),
            )
        return searched_row(self.row, self.request, left, faults=(*self.faults, fault)).refined(deadline)

    def _refined(self, deadline: Deadline) -> AutoPlan:
        if self.search.shortest is None and self.provider.left_out:
            raise self.request.deadline.too_short(_("must be enough seconds to reach a mesh that the model fits on"))
        refinement = refine(self.search, self.provider, deadline=deadline)
        pipeline = place(self.search, refinement, self.provider, self.row)
        return AutoPlan(
            row=self.row,
            request=self.request,
            provider=self.provider,
            search=self.search,
            refinement=refinement,
            pipeline=pipeline,
            notes=(
                self.request.overlap.note(),
                *capacity_notes(self.request.expert_capacity),
                *_left_out(self.provider, self.request.deadline),
                *map(_fault_note, self.faults),
            ),
        )


def plan_row(
    row: ModelRow, request: TwoLevelRequest, *, progress: Callable[[str], None] = silent, only_plain: bool = False
) -> AutoPlan:
    """Return the two-level plan of a row of layers; `progress` is told each step before it begins.

    With `only_plain` layers are sharded as in plain plans only.
    """
    search = search_row(row, request, progress=progress, only_plain=only_plain)
    progress(_("refining the pipeline"))
    return search.refined(request.deadline)


def search_row(
    row: ModelRow, request: TwoLevelRequest, *, progress: Callable[[str], None] = silent, only_plain: bool = False
) -> SearchedRow:
    """Choose the stages of a row of layers, and how their operators are sharded."""
    sharded = sharded_stages(row, request, progress=progress, only_plain=only_plain)
    provider = restricted(sharded, request.fixed, request.deadline)
    progress(_("choosing the stages"))
    return searched_row(row, request, provider)


def searched_row(
    row: ModelRow, request: TwoLevelRequest, provider: ShardedStages, *, faults: tuple[FailedTrial, ...] = ()
) -> SearchedRow:
    """Choose the stages of a row of layers, whose costs `provider` has; `faults` are shardings that it lacks."""
    num_stages = request.fixed.pipeline
    search = plan_stages(provider, schedule=request.schedule, num_stages=num_stages, deadline=request.deadline)
    search = with_plain_grids(
        search, provider, schedule=request.schedule, num_stages=num_stages, deadline=request.deadline
    )
    if search.shortest is not None:
        answer_exists()
    return SearchedRow(row=row, request=request, provider=provider, search=search, faults=faults)


def capacity_notes(capacity: float | None) -> tuple[str, ...]:
    """Return a sentence that says what is dropped where experts have a capacity."""
    if capacity is None:
        return ()
    return (
        _(
            "experts take at most {capacity:g} times an equal share of the tokens that a device routes, and all are "
            "priced with as many; what exceeds them is dropped, the least weights first",
            capacity=capacity,
        ),
    )


def _fault_note(fault: FailedTrial) -> str:
    return _(
        "{words} on {submesh} devices was left out, since {layer} does not run so: {reason}",
        words=fault.words,
        submesh=fault.submesh,
        layer=fault.layer,
        reason=fault.reason,
    )


def _left_out(provider: ShardedStages, deadline: Deadline) -> Iterator[str]:
    """Yield a sentence that names the meshes left out for lack of time, if any."""
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
