"""The price of a plan that a person wrote: its degrees, layers and recomputation, at the costs of the planner."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import NONE
from evenflow_torch.auto.failed_trial import FailedTrial
from evenflow_torch.auto.kept_ways import restricted
from evenflow_torch.auto.placed_pipeline import place
from evenflow_torch.auto.planner import AutoPlan, capacity_notes
from evenflow_torch.auto.stages.meshes_tried import sharded_stages
from evenflow_torch.auto.stages.plain_grids import priced_grids
from evenflow_torch.auto.stages.request import TwoLevelRequest, silent
from evenflow_torch.auto.stages.two_level_plan import StagesOutcome, even_bounds
from evenflow_torch.models.parts import ModelRow


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCut:
    """The layers per stage and the recomputation of a plan that a person wrote."""

    layers: tuple[int, ...] = ()
    """Layers of each stage; empty: dealt evenly."""
    recompute: str = NONE
    """Recompute kind of all layers."""


def evaluate_row(
    row: ModelRow,
    request: TwoLevelRequest,
    own: OwnCut,
    *,
    progress: Callable[[str], None] = silent,
) -> AutoPlan:
    """Return the plan with the degrees of `request.fixed`, which decides them all, whether it fits or not.

    Of several shardings with the degrees it has the one that is simulated the shortest.

    Raises:
        InputError: layers that are not those of the model, a recompute kind that it does not have, or degrees that no
            sharding has.
    """
    from evenflow_torch.auto.trial import first_fault

    fixed, num_layers, layers = request.fixed, len(row.body), own.layers
    stages = fixed.pipeline or 1
    fixed.check(request.cluster, num_layers)
    if layers and (len(layers) != stages or sum(layers) != num_layers):
        raise InputError(
            value=list(layers),
            rule=_("must be {stages} numbers that add up to the {count} layers", stages=stages, count=num_layers),
            place="layers",
        )
    bounds = [0, *accumulate(layers)] if layers else even_bounds(num_layers, stages)
    # Degrees mean plain plans; where parameters lie is kept to by free shardings as well.
    costs = sharded_stages(row, request, progress=progress, only_plain=not fixed.placements)
    provider = restricted(costs, fixed, request.deadline)
    progress(_("pricing the plan"))
    plans = list(priced_grids(provider, bounds, own.recompute, schedule=request.schedule))
    if not plans:
        raise InputError(
            value=own.recompute,
            rule=_("must be a recompute kind that all layers have: {names}", names=", ".join(provider.recompute_kinds)),
            place="recompute",
        )
    shortest = min(plans, key=lambda plan: plan.timeline.makespan_ns)
    search = StagesOutcome(
        plan=shortest, alternatives=(shortest,), shortage=None, num_evaluated=len(plans), num_possible=len(plans)
    )
    pipeline = place(search, None, provider, row)
    fault = None if pipeline is None else first_fault(pipeline, provider, row)
    return AutoPlan(
        row=row,
        request=request,
        provider=provider,
        search=search,
        refinement=None,
        pipeline=pipeline,
        is_own=True,
        notes=(*capacity_notes(request.expert_capacity), *([] if fault is None else [_cannot_run(fault)])),
    )


def _cannot_run(fault: FailedTrial) -> str:
    return _(
        "evenflow run cannot train this plan, since {layer} does not run so: {reason}",
        layer=fault.layer,
        reason=fault.reason,
    )
