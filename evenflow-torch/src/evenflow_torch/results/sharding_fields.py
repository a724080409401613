"""A sharding of the operators of a part."""

from typing import TYPE_CHECKING

from evenflow.cluster import code
from evenflow.export.results.json_text import format_object
from evenflow.units import megabytes, milliseconds

if TYPE_CHECKING:  # loads torch
    from evenflow_torch.auto.sharding.mesh_costs import StageOption
    from evenflow_torch.auto.sharding.sharding_plan import CostParts, DeviceMemory, ShardingPlan


def format_sharding(plan: "ShardingPlan") -> str:
    """Return the sharding as a JSON object, one field on each line."""
    return format_object(sharding_fields(plan))


def sharding_fields(plan: "ShardingPlan") -> dict[str, object]:
    """Return costs, memory, and where every parameter, activation and collective is."""
    cost, limit, smallest = plan.cost, plan.memory_limit_bytes, plan.smallest_memory_bytes
    return {
        "status": plan.status.value,
        "mesh": plan.mesh_shape,
        "step_ms": None if cost is None else milliseconds(cost.total_ns),
        "lower_bound_ms": milliseconds(plan.lower_bound_ns),
        "gap": plan.gap,
        "cost_ms": None if cost is None else cost_ms(cost),
        "phase_ms": None if cost is None else _phase_ms(cost),
        "hidden_ms": None if cost is None else _hidden_ms(cost),
        "memory_mb": None if plan.memory is None else _memory_mb(plan.memory),
        "memory_limit_mb": None if limit is None else megabytes(limit),
        "smallest_memory_mb": None if smallest is None else megabytes(smallest),
        "parameters": [
            {
                "name": parameter.name,
                "shape": parameter.shape,
                "kept": code(parameter.kept),
                "used": code(parameter.used),
                "gradient": code(parameter.gradient),
                "update": code(parameter.update),
                "text": parameter.text(),
            }
            for parameter in plan.parameters
        ],
        "activations": [
            {"name": value.name, "shape": value.shape, "placement": code(value.placement)} for value in plan.activations
        ],
        "collectives": [
            {
                "before": collective.before,
                "collective": collective.collective,
                "axis": collective.axis,
                "shape": collective.shape,
                "times": collective.times,
                "time_ms": milliseconds(collective.time_ns),
                "part": collective.part,
                "phase": collective.phase,
            }
            for collective in plan.collectives
        ],
        "replicated_operators": plan.replicated_operators,
    }


def cost_ms(cost: "CostParts | StageOption") -> dict[str, float]:
    """Return milliseconds by what is done."""
    return {
        "compute": milliseconds(cost.compute_ns),
        "communication": milliseconds(cost.communication_ns),
        "resharding": milliseconds(cost.resharding_ns),
        "gradient": milliseconds(cost.gradient_ns),
        "optimizer": milliseconds(cost.optimizer_ns),
    }


def _hidden_ms(cost: "CostParts") -> dict[str, float]:
    return {"microbatches": milliseconds(cost.hidden_ns), "update": milliseconds(cost.hidden_update_ns)}


def _phase_ms(cost: "CostParts") -> dict[str, float]:
    return {
        "forward": milliseconds(cost.forward_ns),
        "backward": milliseconds(cost.backward_ns),
        "update": milliseconds(cost.update_ns),
    }


def _memory_mb(memory: "DeviceMemory") -> dict[str, float]:
    return {
        "parameters": megabytes(memory.parameter_bytes),
        "gradients": megabytes(memory.gradient_bytes),
        "optimizer": megabytes(memory.optimizer_bytes),
        "activations": megabytes(memory.activation_bytes),
    }
