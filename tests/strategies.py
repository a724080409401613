"""Hypothesis strategies: sizes of a pipeline, orders of work, networks, and plans that fit them."""

import random
from collections.abc import Container
from dataclasses import asdict, dataclass, replace
from itertools import pairwise

from hypothesis import strategies as st

from evenflow.model import (
    BOTH,
    COMM,
    FULL,
    NONE,
    SELECT,
    Communication,
    EncoderWork,
    EndBlock,
    HostLink,
    Layer,
    LayerRun,
    Mode,
    Network,
    Plan,
    Sizes,
    cells,
    with_offload,
)
from evenflow.model.stage_ranks import v_shaped
from evenflow.schedule import FAMILIES, Action, Op, Schedule, make_schedule
from evenflow.simulate import Simulation, simulate

ANY_SIZE = tuple(name for name in FAMILIES if name != "interleaved-remainder-last")
"""Families that refuse no sizes beyond their number of chunks and, some, split sequences."""
WITHOUT_PAIRS = tuple(name for name in ANY_SIZE if not FAMILIES[name].has_pairs)
ONE_CHUNK = tuple(name for name, family in FAMILIES.items() if family.num_chunks == 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilySizes(Sizes):
    """A schedule family and sizes that it has."""

    family: str

    @property
    def sizes(self) -> Sizes:
        return Sizes(
            num_ranks=self.num_ranks,
            num_chunks=self.num_chunks,
            num_microbatches=self.num_microbatches,
            sequence_splits=self.sequence_splits,
        )

    def schedule(self) -> Schedule:
        return make_schedule(self.family, **asdict(self.sizes))


@st.composite
def sizes(
    draw: st.DrawFn,
    *,
    families: tuple[str, ...] = ANY_SIZE,
    max_ranks: int = 5,
    max_chunks: int = 3,
    max_microbatches: int = 9,
    max_splits: int = 3,
) -> FamilySizes:
    """Sizes of any of `families`, fewer microbatches than ranks and remainders included."""
    family = draw(st.sampled_from(families))
    return FamilySizes(
        family=family,
        num_ranks=draw(st.integers(1, max_ranks)),
        num_chunks=FAMILIES[family].num_chunks or draw(st.integers(1, max_chunks)),
        num_microbatches=draw(st.integers(1, max_microbatches)),
        sequence_splits=draw(st.integers(1, max_splits)) if FAMILIES[family].can_split else 1,
    )


def inputs_of(action: Action, num_stages: int) -> tuple[Action, ...]:
    """What `action` waits for: one of these, of which an order has one. Nothing for a forward of the first stage."""
    if action.op == Op.F:
        return () if action.stage == 0 else (Action(action.stage - 1, Op.F, action.microbatch),)
    if action.op == Op.W:
        return (Action(action.stage, Op.I, action.microbatch),)
    if action.stage == num_stages - 1:
        return (Action(action.stage, Op.F, action.microbatch),)
    return Action(action.stage + 1, Op.B, action.microbatch), Action(action.stage + 1, Op.I, action.microbatch)


def is_ready(action: Action, num_stages: int, done: Container[Action]) -> bool:
    inputs = inputs_of(action, num_stages)
    return not inputs or any(needed in done for needed in inputs)


@st.composite
def random_schedules(draw: st.DrawFn, *, sizes: tuple[int, int, int] | None = None) -> Schedule:
    """Orders that no family makes: ranks run whatever is ready, picked at random.

    Backwards are full, split, or both in turn; or there are none. Stages are on any ranks. `sizes` gives ranks, chunks
    and microbatches.
    """
    num_ranks, num_chunks, num_microbatches = sizes or draw(
        st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 6))
    )
    num_stages = num_ranks * num_chunks
    pick = random.Random(draw(st.integers(0, 10**9)))
    backwards = draw(st.sampled_from([[(Op.B,)], [(Op.I, Op.W)], [(Op.B,), (Op.I, Op.W)], [()]]))
    in_turn = tuple(range(num_ranks)) * num_chunks
    placements = [st.just(in_turn), st.permutations(in_turn).map(tuple)]
    if num_chunks == 2:
        placements.append(st.just(v_shaped(num_ranks=num_ranks)))
    placement = draw(st.one_of(placements))
    waiting = [
        Action(stage, op, unit)
        for stage in range(num_stages)
        for unit in range(num_microbatches)
        for op in (Op.F, *pick.choice(backwards))
    ]
    done: set[Action] = set()
    orders: list[list[Action]] = [[] for _ in range(num_ranks)]
    while waiting:
        action = pick.choice([action for action in waiting if is_ready(action, num_stages, done)])
        waiting.remove(action)
        done.add(action)
        orders[placement[action.stage]].append(action)
    return Schedule.from_actions(
        name="random",
        num_stages=num_stages,
        num_microbatches=num_microbatches,
        stage_ranks=placement,
        orders=orders,
    )


def schedule_of(plan: Plan) -> Schedule:
    """The order of the plan's family."""
    return make_schedule(
        plan.schedule,
        num_ranks=plan.num_ranks,
        num_chunks=plan.num_chunks,
        num_microbatches=plan.num_microbatches,
        sequence_splits=plan.sequence_splits,
    )


def schedules() -> st.SearchStrategy[Schedule]:
    """Valid orders, of the families and beyond."""
    return sizes().map(FamilySizes.schedule) | random_schedules()


@st.composite
def layers(draw: st.DrawFn, *, name: str, kinds: frozenset[str]) -> Layer:
    # 10 ns or more: a part of a split sequence takes time too.
    forward_ns, backward_ns = draw(st.integers(10, 1000)), draw(st.integers(10, 2000))
    amounts, working = st.integers(0, 1000), st.just(0) | st.integers(0, 1000)
    modes = {NONE: Mode(activation_bytes=draw(amounts), backward_ns=backward_ns, working_bytes=draw(working))}
    for kind in sorted(kinds):
        modes[kind] = Mode(
            activation_bytes=draw(amounts),
            backward_ns=backward_ns + draw(st.integers(0, 1000)),
            working_bytes=draw(working),
        )
    return Layer(
        name=name,
        forward_ns=forward_ns,
        parameter_bytes=draw(st.integers(0, 1000)),
        modes=modes,
        stated_weight_ns=draw(st.none() | st.integers(0, backward_ns)),
        stated_until_weight_bytes=draw(st.none() | st.integers(0, 1500)),
    )


@st.composite
def networks(draw: st.DrawFn, *, max_layers: int = 24, max_runs: int = 4) -> Network:
    """Uniform and heterogeneous ones, with and without recompute kinds (one of them user-named), head and tail."""
    kinds = frozenset(draw(st.sets(st.sampled_from([FULL, BOTH, SELECT, COMM, "offload"]))))
    num_runs = draw(st.integers(1, max_runs))
    counts = draw(st.lists(st.integers(1, max(1, max_layers // num_runs)), min_size=num_runs, max_size=num_runs))
    costs = st.integers(0, 1000)
    blocks = st.builds(
        EndBlock,
        forward_ns=costs,
        backward_ns=costs,
        parameter_bytes=costs,
        activation_bytes=costs,
        working_bytes=st.just(0) | costs,
    ) | st.just(EndBlock())
    return Network(
        name="drawn",
        runs=tuple(
            LayerRun(layer=draw(layers(name=f"layer {index}", kinds=kinds)), count=count)
            for index, count in enumerate(counts)
        ),
        head=draw(blocks),
        tail=draw(blocks),
        constant_bytes=draw(costs),
    )


@st.composite
def plans(draw: st.DrawFn, network: Network) -> Plan:
    """Any cut of `network`, empty cells included, with any recompute counts that its kinds allow."""
    size = draw(sizes())
    cuts = st.integers(0, network.num_layers)
    num_stages = size.num_cells
    bounds = [0, *sorted(draw(st.lists(cuts, min_size=num_stages - 1, max_size=num_stages - 1))), network.num_layers]
    counts = [after - before for before, after in pairwise(bounds)]
    left = list(counts)
    recompute = {}
    for kind in network.split_sequence(size.sequence_splits).kinds[:-1]:
        chosen = [draw(st.integers(0, most)) for most in left]
        left = [most - count for most, count in zip(left, chosen, strict=True)]
        recompute[kind] = cells(_rows(chosen, size.num_ranks))
    return Plan(
        schedule=size.family,
        num_microbatches=size.num_microbatches,
        layers=cells(_rows(counts, size.num_ranks)),
        recompute=recompute,
        sequence_splits=size.sequence_splits,
    )


def _rows(stages: list[int], num_ranks: int) -> list[list[int]]:
    return [stages[first : first + num_ranks] for first in range(0, len(stages), num_ranks)]


encoder_works = st.builds(
    EncoderWork,
    parts=st.integers(1, 3),
    forward_ns=st.integers(1, 900),
    backward_ns=st.integers(0, 1500),
    message_ns=st.integers(0, 200),
    summed_ns=st.integers(0, 100),
    in_bubbles=st.booleans(),
)


@st.composite
def simulations(draw: st.DrawFn) -> Simulation:
    """Of plans under the order of their family, or under any other of the same sizes."""
    network = draw(networks(max_layers=12))
    plan = draw(plans(network))
    order = None
    if plan.sequence_splits == 1:
        orders = random_schedules(sizes=(plan.num_ranks, plan.num_chunks, plan.num_microbatches))
        order = draw(st.none() | orders.filter(lambda order: not (order.is_forward_only and plan.recompute)))
    costs = st.builds(Communication, latency_ns=st.integers(0, 300), transfer_ns=st.integers(0, 300))
    return simulate(network, plan, schedule=order, communication=draw(st.none() | costs))


@st.composite
def moving_simulations(draw: st.DrawFn) -> Simulation:
    """The same with backwards, none of them beside a forward, where every layer moves all that it keeps to the host."""
    simulation = draw(simulations().filter(lambda simulation: _may_move(simulation.timeline.schedule)))
    link = HostLink(
        bytes_per_s=draw(st.integers(10**6, 10**10)), one_engine=draw(st.booleans()), ahead=draw(st.integers(0, 3))
    )
    plain = replace(
        simulation.network,
        runs=tuple(
            replace(run, layer=replace(run.layer, modes={"none": run.layer.modes["none"]}))
            for run in simulation.network.runs
        ),
        segments={},
    )
    plan = replace(simulation.plan, recompute={"offload": simulation.plan.layers})
    order = None if simulation.timeline.schedule.name == plan.schedule else simulation.timeline.schedule
    return simulate(with_offload(plain, link), plan, schedule=order, communication=simulation.communication)


def _may_move(schedule: Schedule) -> bool:
    return not (schedule.has_pairs or schedule.is_forward_only)
