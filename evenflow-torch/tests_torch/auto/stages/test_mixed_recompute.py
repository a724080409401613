"""Stages with two recompute kinds: as the exact simulation has them, and the fastest of all such for every place."""

from dataclasses import dataclass, fields

from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.cluster import Link, Submesh
from evenflow.errors import InputError
from evenflow.model import EndBlock, Layer, LayerRun, Mode, Network, Plan
from evenflow.simulate import simulate
from evenflow_torch.auto.sharding.ways import MeshSharding
from evenflow_torch.auto.stages.analytic import AnalyticStages
from evenflow_torch.auto.stages.in_flight import in_flight_microbatches
from evenflow_torch.auto.stages.mixed_recompute import MixedRecompute
from evenflow_torch.auto.stages.stage_provider import StageCost
from evenflow_torch.auto.stages.stage_search import plan_stages
from tests.cluster.clusters import mesh
from tests.thoroughness import examples
from tests_torch.auto.networks import network, stages

LINKS = {"intra": Link(bytes_per_s=10**9, latency_ns=5), "inter": Link(bytes_per_s=10**8, latency_ns=20)}
KINDS = ("full", "select", "none")


@st.composite
def layers(draw: st.DrawFn) -> Layer:
    forward = draw(st.integers(50, 500))
    keeps = sorted(draw(st.lists(st.integers(0, 900), min_size=3, max_size=3)))
    again = sorted(draw(st.lists(st.integers(0, 500), min_size=2, max_size=2)), reverse=True)
    modes = {
        kind: Mode(activation_bytes=kept, backward_ns=2 * forward + more, working_bytes=draw(st.integers(0, 300)))
        for kind, kept, more in zip(KINDS, keeps, [*again, 0], strict=True)
    }
    return Layer(name="layer", forward_ns=forward, parameter_bytes=draw(st.integers(0, 300)), modes=modes)


ENDS = st.builds(
    EndBlock,
    forward_ns=st.integers(0, 99),
    backward_ns=st.integers(0, 99),
    parameter_bytes=st.integers(0, 99),
    activation_bytes=st.integers(0, 99),
    working_bytes=st.integers(0, 600),
)
NETWORKS = st.builds(
    lambda some, head, tail: Network(
        name="small", runs=tuple(LayerRun(layer=one, count=1) for one in some), head=head, tail=tail
    ),
    st.lists(layers(), min_size=1, max_size=5),
    ENDS,
    ENDS,
)


def by_simulation(of: Network, first: str, second: str, num_first: int) -> tuple[int, int, int, int]:
    """Forward, backward, static bytes and activations of a whole network on one device, by the exact simulation."""
    counts = dict.fromkeys(KINDS[:-1], 0)
    for kind, count in ((first, num_first), (second, of.num_layers - num_first)):
        if kind in counts:
            counts[kind] += count
    tables = {kind: ((count,),) for kind, count in counts.items()}
    costs = simulate(of, Plan(schedule="1f1b", num_microbatches=1, layers=((of.num_layers,),), recompute=tables)).costs
    static = costs.static_bytes[0] + costs.working_bytes[0]
    return int(costs.forward_ns[0]), int(costs.backward_ns[0]), int(static), int(costs.activation_bytes[0])


@given(of=NETWORKS, memory=st.integers(300, 9000), num_microbatches=st.integers(1, 4))
@settings(max_examples=examples(100), deadline=None)
def test_the_fastest_that_fits_is_there_and_costs_what_is_simulated(
    of: Network, memory: int, num_microbatches: int
) -> None:
    provider = stages(of, mesh(1, 1, memory_bytes=memory, **LINKS), num_microbatches=num_microbatches)
    own, here = provider.network_on(Submesh(1, 1), provider.shardings(Submesh(1, 1))[0]), Submesh(1, 1)
    run = (0, of.num_layers, here)
    pure = provider.options(*run)
    live = in_flight_microbatches("1f1b", num_microbatches=num_microbatches, most_stages=1)
    found = MixedRecompute(provider=provider, memory_limit_bytes=memory, in_flight=live).options(*run, pure)
    for one in found:
        kind, count = one.rest
        assert (one.forward_ns, one.backward_ns, one.static_bytes, one.activation_bytes) == by_simulation(
            own, one.recompute, kind, of.num_layers - count
        )
    every = [
        by_simulation(own, first, second, cut)
        for place, first in enumerate(KINDS)
        for second in KINDS[place + 1 :]
        for cut in range(of.num_layers + 1)
    ]
    fitting = [forward + backward for forward, backward, static, kept in every if static + kept <= memory]
    ours = [one.cost_ns for one in [*pure, *found] if one.static_bytes + one.activation_bytes <= memory]
    assert min(ours, default=None) == min(fitting, default=None)


def test_a_stage_recomputes_as_few_layers_as_make_room() -> None:
    """Eight layers of 800 static bytes keep 1,000 bytes, or 100: three of them must recompute to keep 5,300."""
    of = network([100] * 8)
    answer = plan_stages(stages(of, mesh(1, 1, memory_bytes=8 * 800 + 5300, **LINKS), num_microbatches=2))
    (stage,) = answer.plan.stages
    assert stage.cost.layers_by_kind(8) == {"full": 3, "none": 5}
    assert stage.cost.recompute_words(8) == "full 3, none 5"
    assert answer.plan.step_ns == answer.plan.timeline.makespan_ns == 2 * (8 * 300 + 3 * 100)


def test_nothing_is_mixed_where_everything_fits() -> None:
    provider = stages(network([100] * 8), mesh(1, 1, memory_bytes=10**6, **LINKS))
    mixed = MixedRecompute(provider=provider, memory_limit_bytes=10**6, in_flight=(0, 1))
    pure: list[StageCost] = list(provider.options(0, 8, Submesh(1, 1)))
    assert mixed.options(0, 8, Submesh(1, 1), pure) == []
    assert mixed.options(0, 8, Submesh(1, 1), []) == []


@dataclass(frozen=True, kw_only=True)
class Fixed(AnalyticStages):
    """Stages that all have so many tensor-parallel devices."""

    tensor: int

    def shardings(self, submesh: Submesh) -> tuple[MeshSharding, ...]:
        return tuple(one for one in super().shardings(submesh) if one.mesh[1] == self.tensor)


@given(
    of=NETWORKS,
    sizes=st.sampled_from([(1, 1), (1, 4), (2, 2)]),
    memory=st.integers(300, 5000),
    num_microbatches=st.integers(1, 6),
)
@settings(max_examples=examples(20), deadline=None)
def test_a_free_choice_is_never_worse_than_a_fixed_one(
    of: Network, sizes: tuple[int, int], memory: int, num_microbatches: int
) -> None:
    cluster = mesh(*sizes, memory_bytes=memory, **LINKS)
    free = stages(of, cluster, num_microbatches=num_microbatches)
    found = plan_stages(free)
    own = found.plan
    values = {one.name: getattr(free, one.name) for one in fields(free)}
    for tensor in (1, 2, 4):
        for num_stages in (None, 1, 2, 4):
            if num_stages is not None and num_stages > min(of.num_layers, cluster.num_devices):
                continue
            try:
                fixed = plan_stages(Fixed(**values, tensor=tensor), num_stages=num_stages)
            except InputError:  # so few devices, or so many stages, that there are no such stages at all
                continue
            if fixed.plan is None:
                continue
            assert own.lower_bound_ns <= own.step_ns <= fixed.plan.step_ns
            # What the exact simulation says of it is not below the bound that the free search claims either.
            assert found.simulated_bound_ns <= fixed.plan.timeline.makespan_ns
