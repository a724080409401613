"""A problem and a plan in the words of a certificate, without any evidence yet."""

from collections import Counter
from itertools import pairwise

from evenflow.language import _
from evenflow.model import EndBlock, Network
from evenflow.schedule import format_schedule
from evenflow.simulate import Integers
from evenflow.solve.problem import Problem
from evenflow.verify import (
    FORMAT,
    BlockCosts,
    BoundEvidence,
    Certificate,
    Claimed,
    LayerCosts,
    NetworkCosts,
    RankFacts,
)


def not_covered(problem: Problem) -> str:
    """Return what of a problem no certificate covers, as a rule; empty where all is covered."""
    placement = problem.placement
    has_rules = placement is not None and bool(placement.banned.any() or placement.alone.any())
    rules = (
        (problem.host_link is not None, _("must not be given for copies to the host")),
        (problem.schedule.has_pairs, _("must not be given for forwards beside backwards")),
        (problem.schedule.is_forward_only, _("must not be given for forwards alone")),
        (
            len({*Counter(problem.schedule.stage_ranks).values()}) > 1,
            _("must not be given where ranks have different numbers of cells"),
        ),
        (problem.messages_depend, _("must not be given where messages depend on the cut, or wait for each other")),
        (bool(problem.sums.segments), _("must not be given for layers that are computed again in segments")),
        (problem.blocks is not None, _("must not be given for layers that stay together")),
        (has_rules, _("must not be given for layers with rules about their stage")),
        (problem.counts_full, _("must not be given where a rule bounds the layers of a cell under full recomputation")),
    )
    return next((rule for holds, rule in rules if holds), "")


def described(problem: Problem, counts: Integers) -> Certificate:
    """Return the claim that the plan with these counts [num_cells, num_kinds] is as it is, and no shorter than 0."""
    speeds = list(dict.fromkeys(problem.network.speed_of(rank) for rank in range(problem.num_ranks)))
    networks = [problem.network_at(speed) for speed in speeds]
    types: dict[str, int] = {}
    costs: list[LayerCosts] = []
    of_networks = [NetworkCosts(
        layers=[_type_of(own, problem.kinds, types, costs) for own in _layers(network, problem.kinds)],
        head=_block(network.head), tail=_block(network.tail),
    ) for network in networks]  # fmt: skip
    schedule = problem.schedule
    simulated = problem.simulate(counts)
    sent = problem.shortest_sent_ns.tolist()
    return Certificate(
        format=FORMAT,
        network=problem.network.name,
        schedule=schedule.name,
        kinds=list(problem.kinds),
        kind_sets=[list(own) for own in problem.families],
        types=costs,
        networks=of_networks,
        ranks=[
            RankFacts(
                network=speeds.index(problem.network.speed_of(rank)),
                constant_bytes=int(problem.constants[rank]),
                limit_bytes=None if problem.memory_limit_bytes is None else int(problem.limits[rank]),
                order=order,
            )
            for rank, order in enumerate(format_schedule(schedule).splitlines())
        ],
        messages_ns=[
            sent[stage] if first != second else 0
            for stage, (first, second) in enumerate(pairwise(schedule.stage_ranks))
        ],
        stage_layers=_stage_layers(problem),
        claim=Claimed(
            layers=counts.tolist(),
            makespan_ns=simulated.makespan_ns,
            peak_bytes=[int(peak) for peak in simulated.peak_memory_bytes],
            bound_ns=0,
        ),
        evidence=BoundEvidence(paths=[], denominator=1, mixtures=[], trees=[]),
    )


def _layers(network: Network, kinds: tuple[str, ...]) -> list[LayerCosts]:
    return [
        LayerCosts(
            forward_ns=layer.forward_ns,
            weight_ns=layer.weight_ns,
            until_weight_bytes=layer.until_weight_bytes,
            parameter_bytes=layer.parameter_bytes,
            kinds=[
                (layer.modes[kind].backward_ns, layer.modes[kind].activation_bytes, layer.modes[kind].working_bytes)
                for kind in kinds
            ],
        )
        for layer in network.layers
    ]


def _type_of(own: LayerCosts, kinds: tuple[str, ...], types: dict[str, int], costs: list[LayerCosts]) -> int:
    key = repr(own)
    if key not in types:
        types[key] = len(costs)
        costs.append(own)
    return types[key]


def _block(block: EndBlock) -> BlockCosts:
    return BlockCosts(**{name: getattr(block, name) for name in BlockCosts.__struct_fields__})


def _stage_layers(problem: Problem) -> list[tuple[int, int]]:
    """Return the fewest and the most layers of every stage."""
    bounds = problem.fixed_bounds
    if bounds is not None:
        return [(int(end - begin), int(end - begin)) for begin, end in pairwise(bounds)]
    filled = [False] * problem.num_cells if problem.placement is None else problem.placement.filled.tolist()
    return [(max(problem.min_layers, int(own)), problem.num_layers) for own in filled]
