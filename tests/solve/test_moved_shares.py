"""Tests of plans that move a share of what they can, against all shares of all cuts."""

from dataclasses import replace
from itertools import combinations, pairwise

from evenflow.model import (
    NONE,
    Abilities,
    Groups,
    HostLink,
    Layer,
    LayerRun,
    Mode,
    MovedGroups,
    MovedShare,
    Network,
    Plan,
    Recomputation,
    Request,
    Scope,
    Sizes,
    shares_between,
    stage_table,
    with_chain,
    with_moved_share,
)
from evenflow.predict.training import moved_chain
from evenflow.simulate import Simulation, simulate
from evenflow.solve.best_outcome import BestOutcome
from evenflow.solve.for_target import solve_for_target
from evenflow.solve.requests import ContestSearch
from evenflow.targets.refusal import refusal

WHOLE = "offload_core_attn+offload_expert_fc1"
RANKS, LAYERS, MICROBATCHES = 4, 8, 8
ALIKE = Abilities(
    schedules=("1f1b",), recomputation=(Recomputation(scope=Scope.MODEL, kinds=(WHOLE,)),), groups=Groups.ANY
)
IN_SHARE = replace(ALIKE, recomputation=(replace(ALIKE.recomputation[0], chain=moved_chain),))


def _network(*, bytes_per_s: int) -> Network:
    """Layers whose last ones move less, on a link that is busy where all of it moves."""

    def layer(parts: tuple[int, int]) -> Layer:
        whole = Mode(
            activation_bytes=1000 - sum(parts), offloaded_bytes=sum(parts), moved_parts=parts, backward_ns=2000
        )
        modes = {NONE: Mode(activation_bytes=1000, backward_ns=2000), WHOLE: whole}
        return Layer(name=str(parts), forward_ns=1000, parameter_bytes=10, modes=modes)

    runs = LayerRun(layer=layer((400, 500)), count=6), LayerRun(layer=layer((400, 0)), count=2)
    return Network(name="moving", runs=runs, host_link=HostLink(bytes_per_s=bytes_per_s))


def _every_plan(network: Network) -> list[Simulation]:
    """Return all cuts under all shares that differ, and with all or nothing moved."""
    whole = with_chain(network, moved_chain(WHOLE))
    assert whole is not None
    groups = MovedGroups.of(whole, moved_chain(WHOLE))
    assert groups is not None
    found = []
    for inner in combinations(range(1, LAYERS), RANKS - 1):
        bounds = list(pairwise((0, *inner, LAYERS)))
        counts = [groups.num_groups(start, end) for start, end in bounds]
        for share in (0.0, *shares_between(counts), 1.0):
            plan = Plan(
                schedule="1f1b",
                num_microbatches=MICROBATCHES,
                layers=(tuple(end - start for start, end in bounds),),
                moved_share=MovedShare(kind=WHOLE, share=share),
            )
            counted = with_moved_share(plan, groups, stage_table(range(RANKS), num_ranks=RANKS))
            found.append(simulate(whole, counted))
    return found


def _outcome(network: Network, abilities: Abilities, limit: int) -> BestOutcome:
    request = Request(
        network=network,
        sizes=Sizes(num_ranks=RANKS, num_chunks=1, num_microbatches=MICROBATCHES),
        memory_limit_bytes=limit,
        allow_empty=False,
    )
    search = ContestSearch(num_chunks=(1,), time_limit_s=4.0)
    return solve_for_target(request, abilities, search, title="Megatron-LM")


def test_a_busy_link_moves_a_share_and_the_shortest_one() -> None:
    network, limit = _network(bytes_per_s=10**9 // 2), 7000
    fitting = [simulation for simulation in _every_plan(network) if simulation.fits(limit)]
    best = min(simulation.makespan_ns for simulation in fitting)
    found = _outcome(network, IN_SHARE, limit)
    outcome, alike_ns = found.outcome, _outcome(network, ALIKE, limit).outcome.makespan_ns
    assert outcome.plan is not None
    assert outcome.simulation is not None
    assert outcome.plan.moved_share is not None
    assert outcome.simulation.fits(limit)
    assert outcome.makespan_ns == best
    assert alike_ns is not None
    assert best < alike_ns
    assert outcome.lower_bound_ns == found.lower_bound_ns <= best
    assert found.candidates[0].makespan_ns == outcome.makespan_ns
    assert refusal(outcome.plan, IN_SHARE, title="Megatron-LM") is None
    assert refusal(outcome.plan, ALIKE, title="Megatron-LM") is not None


def test_a_free_link_moves_all_and_says_what_is_bounded() -> None:
    network = _network(bytes_per_s=10**12)
    outcome = _outcome(network, IN_SHARE, 7000).outcome
    assert outcome.plan is not None
    assert outcome.plan.moved_share is None
    assert "with the same modules moved in all layers" in outcome.certificate()
    assert "moved" not in _outcome(network, ALIKE, 7000).outcome.certificate()
