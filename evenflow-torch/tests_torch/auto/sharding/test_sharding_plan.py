from evenflow.cluster.placement import REPLICATE
from evenflow.solve import Status
from evenflow_torch.auto.sharding.sharding_plan import CostParts, ParameterSharding, ShardingPlan


def parameter(name: str, update: int = 0) -> ParameterSharding:
    return ParameterSharding(
        name=name, shape=(4, 4), dimensions=("column", "row"), kept=(0,), used=(0,), gradient=(0,), update=(update,)
    )


def test_only_ranges_of_layers_expand() -> None:
    assert list(parameter("h.3-5.w").names()) == ["h.3.w", "h.4.w", "h.5.w"]
    assert list(parameter("block-1-2.w").names()) == ["block-1-2.w"]


def test_the_text_names_what_differs() -> None:
    assert parameter("w").text() == "w column on mesh axis 0"
    assert parameter("w", REPLICATE).text() == "w column on mesh axis 0; optimizer state replicated"


def test_the_gap_is_what_could_be_saved() -> None:
    cost = CostParts(
        compute_ns=60,
        communication_ns=20,
        resharding_ns=10,
        gradient_ns=10,
        forward_ns=30,
        backward_ns=60,
        update_ns=10,
    )
    plan = ShardingPlan(status=Status.FEASIBLE, mesh_shape=(2,), memory_limit_bytes=None, lower_bound_ns=75, cost=cost)
    assert plan.gap == 0.25
    nothing = ShardingPlan(status=Status.TIMEOUT, mesh_shape=(2,), memory_limit_bytes=None, lower_bound_ns=75)
    assert nothing.gap is None
