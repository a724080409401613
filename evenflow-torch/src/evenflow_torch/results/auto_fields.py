"""A two-level plan, whose pipeline reads back as a plan file."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from evenflow.cluster import parse_dtype
from evenflow.profiles.mesh_plan_file import cluster_fields, tensor_fields
from evenflow.profiles.plan_degrees import degrees_fields
from evenflow.profiles.plan_fields import network_fields, plan_fields
from evenflow.units import megabytes, milliseconds
from evenflow_torch.requests import AutoRequest
from evenflow_torch.results.sharding_fields import cost_ms, sharding_fields

if TYPE_CHECKING:  # loads torch
    from evenflow_torch.auto.placed_pipeline import PlacedStage
    from evenflow_torch.auto.planner import AutoPlan, TriedBatch
    from evenflow_torch.auto.refine import Refined
    from evenflow_torch.auto.stages.two_level_plan import PlainGrid, TwoLevelPlan


def auto_fields(result: "AutoPlan", request: AutoRequest) -> dict[str, object]:
    """Return the plan, its stages and their shardings, or why there is none."""
    from evenflow_torch.auto.fixing.fixed import fixed_text

    top = {
        "model": result.row.name,
        "cluster": cluster_fields(result.cluster),
        **_setting(request),
        "fixed": fixed_text(result.request.fixed),
    }
    searched = {
        "alternatives": [_two_level(plan, result) for plan in result.search.alternatives],
        "plain": [_plain(grid) for grid in result.search.grids],
        "evaluated_stages": result.search.num_evaluated,
        "possible_stages": result.search.num_possible,
        "microbatch_sizes": [_batch(tried) for tried in result.batches],
        "meshes": {
            "sharded": sum(len(meshes) for meshes in result.provider.costs.values()),
            "left_out": result.provider.left_out,
        },
    }
    if result.two_level is None:
        shortage = result.search.shortage
        assert shortage is not None
        return {
            "status": result.status.value,
            **top,
            "smallest_memory_mb": megabytes(shortage.memory_bytes),
            "enough_nodes": shortage.num_nodes,
            **searched,
        }
    fields = plan_fields(
        result.simulation,
        status=result.status.value,
        lower_bound_ns=result.lower_bound_ns,
        memory_limit_bytes=result.cluster.memory_bytes,
    )
    refinement = result.refinement
    return {
        **fields,
        **top,
        "bound_holds_for": "any plan" if result.bound_holds_for_all else "stages",
        "two_level": _two_level(result.two_level, result),
        **_degrees(result),
        "stages": [_stage(stage) for stage in result.stages],
        "shardings": list(_shardings(result)),
        **searched,
        "refinement": None
        if refinement is None
        else {
            "saved": refinement.saved,
            "tried": [_refined(tried, refinement.base, result) for tried in refinement.tried],
        },
        **network_fields(result.simulation),
    }


def _setting(request: AutoRequest) -> dict[str, object]:
    """Return the fields of the request that its plan does not have."""
    target_sequence, bytes_per_parameter = request.target_sequence, request.bytes_per_parameter
    return {
        "sequence": request.sequence,
        **({} if target_sequence is None else {"target_sequence": target_sequence}),
        "global_batch": request.global_batch,
        "microbatch": request.microbatch,
        "accelerator": request.accelerator,
        "efficiency": request.efficiency,
        "dtype": parse_dtype(request.dtype).short_name,
        "optimizer": request.optimizer,
        **({} if bytes_per_parameter is None else {"bytes_per_parameter": bytes_per_parameter}),
        "overlap": tuple(request.overlap),
        **({} if request.expert_capacity is None else {"expert_capacity": request.expert_capacity}),
        "axes": request.most_axes,
    }


def _batch(tried: "TriedBatch") -> dict[str, object]:
    return {
        "microbatch": tried.microbatch,
        "microbatches": tried.num_microbatches,
        "outcome": tried.outcome.value,
        "step_ms": None if tried.step_ns is None else milliseconds(tried.step_ns),
        "lower_bound_ms": None if tried.lower_bound_ns is None else milliseconds(tried.lower_bound_ns),
    }


def _two_level(plan: "TwoLevelPlan", result: "AutoPlan") -> dict[str, object]:
    return {
        "step_ms": milliseconds(plan.step_ns),
        "lower_bound_ms": milliseconds(plan.lower_bound_ns),
        "gap": 1 - plan.lower_bound_ns / plan.step_ns if plan.step_ns else 0.0,
        "makespan_ms": milliseconds(plan.timeline.makespan_ns),
        "stages": [
            {
                "layers": [stage.first, stage.end],
                "submesh": list(stage.submesh),
                "sharding": str(stage.cost.sharding),
                "words": result.use((stage.first, stage.end), stage.submesh, stage.cost.sharding).words,
                "recompute": stage.cost.recompute_words(stage.end - stage.first),
            }
            for stage in plan.stages
        ],
    }


def _degrees(result: "AutoPlan") -> dict[str, object]:
    """Return the degrees that all stages share, or the reason why they share none."""
    from evenflow_torch.auto.degrees import plan_degrees

    common_degrees = plan_degrees(result.stages)
    if isinstance(common_degrees, str):
        return {"degrees": None, "degrees_missing": common_degrees}
    return {"degrees": degrees_fields(common_degrees.degrees, replicas=common_degrees.replicas)}


def _plain(grid: "PlainGrid") -> dict[str, object]:
    from evenflow_torch.auto.sharding.ways import PlainWay

    way = grid.sharding.way
    assert isinstance(way, PlainWay)
    return {
        "name": grid.name,
        "submesh": list(grid.submesh),
        "mesh": grid.sharding.mesh,
        "roles": [role.value for role in way.roles],
        "zero": int(way.sharding.value),
        "stages": grid.num_stages,
        "recompute": grid.plan.stages[0].cost.recompute if grid.plan else None,
        "makespan_ms": milliseconds(grid.plan.timeline.makespan_ns) if grid.plan else None,
        "memory_mb": None if grid.memory_bytes is None else megabytes(grid.memory_bytes),
        "reason": grid.reason or None,
    }


def _stage(stage: "PlacedStage") -> dict[str, object]:
    option, on_mesh = stage.option, stage.on_mesh
    return {
        "stage": stage.stage,
        "rank": stage.rank,
        "layers": [stage.first, stage.end],
        "modules": stage.modules,
        "submesh": list(stage.submesh),
        "devices": list(stage.devices),
        "mesh": stage.sharding.mesh,
        "sharding": str(stage.sharding),
        "words": stage.use.words,
        "kinds": stage.kinds,
        "recompute": dict(stage.recompute),
        "forward_ms": milliseconds(option.forward_ns),
        "backward_ms": milliseconds(option.backward_ns),
        "update_ms": milliseconds(option.update_ns),
        "cost_ms": cost_ms(option),
        "hidden_ms": {
            "microbatch": milliseconds(option.hidden_ns),
            "update": milliseconds(option.hidden_update_ns),
        },
        "static_mb": megabytes(option.static_bytes),
        "activation_mb": megabytes(option.activation_bytes),
        **tensor_fields(on_mesh),
    }


def _shardings(result: "AutoPlan") -> Iterator[dict[str, object]]:
    """Yield every kind of layer under every sharding that the stages use."""
    used = {
        (stage.submesh, stage.sharding, kind): plan for stage in result.stages for kind, plan in stage.shardings.items()
    }
    for (submesh, sharding, kind), plan in used.items():
        yield {"submesh": list(submesh), "sharding": str(sharding), "kind": kind, **sharding_fields(plan)}


def _refined(tried: "Refined", base: "TwoLevelPlan", result: "AutoPlan") -> dict[str, object]:
    outcome, timeline = tried.outcome, tried.timeline
    bound = outcome.lower_bound_ns
    return {
        "schedule": tried.schedule,
        "chunks": tried.num_chunks,
        "sharding": str(tried.sharding),
        "words": result.use((0, base.stages[-1].end), base.stages[0].submesh, tried.sharding).words,
        "status": outcome.status.value,
        "makespan_ms": None if timeline is None else milliseconds(timeline.makespan_ns),
        "lower_bound_ms": None if bound is None else milliseconds(bound),
        "gap": outcome.gap,
    }
