"""Restricts the costs of stages to the ways of sharding that a user's decisions allow."""

from collections.abc import Iterator
from dataclasses import replace

from evenflow.errors import InputError
from evenflow.language import _, joined
from evenflow_torch.auto.deadline import Deadline
from evenflow_torch.auto.fixing.fixed import Fixed, fixed_text
from evenflow_torch.auto.sharding.mesh_costs import MeshCosts
from evenflow_torch.auto.sharding.plain.solutions import no_time
from evenflow_torch.auto.stages.sharded_stages import ShardedStages


def restricted(provider: ShardedStages, fixed: Fixed, deadline: Deadline) -> ShardedStages:
    """Return the provider with only those ways of sharding that `fixed` allows.

    Raises:
        InputError: no way is left on any submesh, or `deadline` was over before all ways had been tried.
    """
    if not fixed.says_sharding:
        return provider
    costs = {
        submesh: kept
        for submesh, meshes in provider.costs.items()
        if (kept := {shape: left for shape, costs in meshes.items() if (left := _left(costs, fixed)).ways})
    }
    if not costs:
        reasons = list(dict.fromkeys(_reasons(provider, fixed)))
        if provider.left_out or no_time() in reasons:
            raise deadline.too_short(
                _("must be enough seconds to shard the layers with {degrees}", degrees=fixed_text(fixed))
            )
        raise InputError(
            value=fixed_text(fixed),
            rule=_("must be degrees with which the layers can be sharded"),
            place=_("the degrees"),
            remedy=joined(reasons) if reasons else _("choose other degrees, or leave one out"),
        )
    return replace(provider, costs=costs)


def _left(costs: MeshCosts, fixed: Fixed) -> MeshCosts:
    ways = [way for way in costs.ways if fixed.allows(costs, way)]
    return replace(
        costs.only(ways),
        missing={way: reason for way, reason in costs.missing.items() if fixed.allows(costs, way)},
    )


def _reasons(provider: ShardedStages, fixed: Fixed) -> Iterator[str]:
    """Yield the reasons why plain plans with the decided degrees do not exist."""
    for meshes in provider.costs.values():
        for costs in meshes.values():
            yield from (reason for way, reason in costs.missing.items() if fixed.allows(costs, way))
