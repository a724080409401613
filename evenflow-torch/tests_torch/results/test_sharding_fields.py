"""The JSON of a sharding, against one written by hand."""

import json

from evenflow.solve import Status
from evenflow_torch.auto.sharding.sharding_plan import CostParts, DeviceMemory, ParameterSharding, ShardingPlan
from evenflow_torch.results.sharding_fields import format_sharding


def test_a_plan() -> None:
    parameter = ParameterSharding(
        name="layers.0-3.up.weight",
        shape=(8, 4),
        dimensions=("column", "row"),
        kept=(-1, 0),
        used=(-1, -1),
        gradient=(-2, 0),
        update=(1, 0),
    )
    plan = ShardingPlan(
        status=Status.FEASIBLE,
        mesh_shape=(2, 4),
        memory_limit_bytes=2**20,
        lower_bound_ns=8_000_000,
        parameters=(parameter,),
        cost=CostParts(
            compute_ns=4_000_000,
            communication_ns=3_000_000,
            resharding_ns=2_000_000,
            gradient_ns=1_000_000,
            forward_ns=3_000_000,
            backward_ns=6_000_000,
            update_ns=1_000_000,
        ),
        memory=DeviceMemory(parameter_bytes=2**18, gradient_bytes=2**17, optimizer_bytes=2**19, activation_bytes=2**16),
    )
    fields = json.loads(format_sharding(plan))
    assert fields["step_ms"] == 10
    assert fields["gap"] == 1 - 8 / 10
    assert fields["memory_mb"] == {"parameters": 0.25, "gradients": 0.125, "optimizer": 0.5, "activations": 0.0625}
    assert fields["parameters"] == [
        {
            "name": "layers.0-3.up.weight",
            "shape": [8, 4],
            "kept": "R S(0)",
            "used": "R R",
            "gradient": "P S(0)",
            "update": "S(1) S(0)",
            "text": "layers.0-3.up.weight column on mesh axis 1; "
            "optimizer state row on mesh axis 0, column on mesh axis 1",
        }
    ]
    assert list(parameter.names()) == [f"layers.{layer}.up.weight" for layer in range(4)]


def test_no_plan() -> None:
    plan = ShardingPlan(
        status=Status.INFEASIBLE,
        mesh_shape=(4,),
        memory_limit_bytes=2**20,
        lower_bound_ns=0,
        smallest_memory_bytes=3 * 2**20,
    )
    fields = json.loads(format_sharding(plan))
    assert (fields["status"], fields["step_ms"], fields["gap"]) == ("infeasible", None, None)
    assert fields["smallest_memory_mb"] == 3
