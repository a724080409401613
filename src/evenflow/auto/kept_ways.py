"""The costs of stages with those ways to shard that a user's decisions leave."""

from dataclasses import replace

from evenflow.auto.fixing.fixed import Fixed, fixed_text
from evenflow.auto.sharding.mesh_costs import MeshCosts
from evenflow.auto.stages.sharded_stages import ShardedStages
from evenflow.errors import InputError
from evenflow.language import _


def restricted(provider: ShardedStages, fixed: Fixed) -> ShardedStages:
    """Return the costs of the ways that are left.

    Raises:
        InputError: no way is left on any submesh.
    """
    if not fixed.says_sharding:
        return provider
    costs = {
        submesh: kept
        for submesh, meshes in provider.costs.items()
        if (kept := {shape: left for shape, found in meshes.items() if (left := _left(found, fixed)).ways})
    }
    if not costs:
        raise InputError(
            value=fixed_text(fixed),
            rule=_("must be degrees with which the layers can be sharded"),
            place="--fix",
            remedy=_("choose other degrees, or leave one out"),
        )
    return replace(provider, costs=costs)


def _left(costs: MeshCosts, fixed: Fixed) -> MeshCosts:
    ways = [way for way in costs.ways if fixed.allows(costs, way)]
    return replace(costs, layers=tuple({way: kind[way] for way in ways} for kind in costs.layers))
