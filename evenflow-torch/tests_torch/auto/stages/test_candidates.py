"""Costs of candidate stages: asked for once, kept where nothing beats them."""

from hypothesis import given
from hypothesis import strategies as st

from evenflow.cluster.cluster import Link
from evenflow_torch.auto.sharding.ways import Level, MeshSharding
from evenflow_torch.auto.stages.candidates import pareto
from evenflow_torch.auto.stages.stage_provider import StageCost
from tests.cluster.clusters import mesh
from tests_torch.auto.networks import everything, network, stages

LINKS = {"intra": Link(bytes_per_s=10**9, latency_ns=5), "inter": Link(bytes_per_s=10**8, latency_ns=20)}


def test_equal_runs_are_asked_for_once() -> None:
    provider = stages(network([100] * 12), mesh(2, 4, memory_bytes=10**6, **LINKS))
    found = everything(provider)
    assert found.num_possible == 4 * 12 * 13 // 2
    assert found.num_evaluated == 4 * 12


@given(
    st.lists(
        st.builds(
            StageCost,
            forward_ns=st.integers(0, 3),
            backward_ns=st.integers(0, 3),
            static_bytes=st.integers(0, 3),
            activation_bytes=st.integers(0, 3),
            sharding=st.sampled_from([MeshSharding((2,), level) for level in Level]),
        ),
        max_size=8,
    )
)
def test_pareto_keeps_what_nothing_beats(costs: list[StageCost]) -> None:
    kept = pareto(costs)
    measures = [(cost.cost_ns, cost.static_bytes, cost.activation_bytes) for cost in kept]
    assert measures == sorted(set(measures))
    for cost in costs:
        assert any(
            all(
                mine <= its
                for mine, its in zip(one, (cost.cost_ns, cost.static_bytes, cost.activation_bytes), strict=True)
            )
            for one in measures
        )
    for one in measures:
        assert not any(
            other != one and all(mine <= its for mine, its in zip(other, one, strict=True)) for other in measures
        )
