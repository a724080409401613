"""Layers of an attention output and an MLP, sharded by hand as plain plans do."""

from collections.abc import Mapping
from dataclasses import replace

from evenflow.cluster.placement import PARTIAL, REPLICATE, Placement
from evenflow.solve import Status
from evenflow_torch.auto.sharding.mesh_costs import LayerCost
from evenflow_torch.auto.sharding.sharding_plan import ActivationSharding, ParameterSharding, ShardingPlan
from tests_torch.auto.sharding.made_costs import layer_cost

R, P = REPLICATE, PARTIAL
STATES = {"0": (R, P, R), "1": (R, P, 0), "2": (R, 0, 0), "3": (0, 0, 0)}
"""Placement of a parameter, its gradient and its optimizer state along a data axis, by the stage of ZeRO."""
TENSOR = {"up": ((R, 1), 0), "down": ((1, P), 1)}
"""What products read and give along a tensor axis, and the dimension of their parameter that it splits."""


def made_layer(*axes: str, zero: str | tuple[str, ...] = "0", tokens: bool = False) -> LayerCost:
    """A layer whose mesh axes are each for ``data``, ``tensor``, ``context`` or ``same``; `zero` of all, or of each."""
    stages = (zero,) * len(axes) if isinstance(zero, str) else zero
    columns = [_axis(axis, stage) for axis, stage in zip(axes, stages, strict=True)]
    parameters = [
        ParameterSharding(
            name=f"mlp.{name}.weight",
            shape=(64, 16) if name == "up" else (16, 64),
            dimensions=("column", "row"),
            kept=_placement(columns, name, 2),
            used=_placement(columns, name, 2),
            gradient=_placement(columns, name, 3),
            update=_placement(columns, name, 4),
        )
        for name in TENSOR
    ]
    parameters.append(
        ParameterSharding(
            name="norm.weight", shape=(16,), dimensions=(), kept=(R,) * len(axes), used=(R,) * len(axes),
            gradient=(P,) * len(axes),
            update=(R,) * len(axes),
        )
    )  # fmt: skip
    products = [
        ActivationSharding(
            name=f"mlp.{name}",
            shape=(128, 64 if name == "up" else 16),
            reads=_placement(columns, name, 0),
            placement=_placement(columns, name, 1),
        )
        for name in TENSOR
    ]
    entry = tuple({"data": 0, "context": 1, "tensor": 1 if tokens else R, "same": R}[axis] for axis in axes)
    plan = ShardingPlan(
        status=Status.OPTIMAL,
        mesh_shape=(2,) * len(axes),
        memory_limit_bytes=None,
        lower_bound_ns=0,
        parameters=tuple(parameters),
        activations=tuple(products),
    )
    return replace(layer_cost(1, entry=entry, leave=entry), plan=plan)


def _axis(role: str, zero: str) -> Mapping[str, tuple[int, int, int, int, int]]:
    """What a product reads and gives, and where its parameter, gradient and optimizer state lie, by the product."""
    if role == "tensor":
        return {name: (*passed, split, split, split) for name, (passed, split) in TENSOR.items()}
    rows = R if role == "same" else 0
    return dict.fromkeys(TENSOR, (rows, rows, *(STATES[zero] if role != "same" else (R, R, R))))


def _placement(columns: list[Mapping[str, tuple[int, int, int, int, int]]], name: str, index: int) -> Placement:
    return tuple(column[name][index] for column in columns)
