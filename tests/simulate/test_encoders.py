"""Encoders beside a pipeline: parts in its bubbles, against every way to place them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise, permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import EncoderWork, Plan, RankTraits
from evenflow.schedule import Op
from evenflow.simulate import EncoderParts, Simulation, simulate
from tests.networks import equal_network
from tests.strategies import encoder_works, simulations

Gap = tuple[int, int]


def with_work(simulation: Simulation, work: EncoderWork) -> Simulation:
    network = replace(simulation.network, encoder_work=work)
    return replace(simulation, network=network)


def gaps(simulation: Simulation, rank: int) -> list[Gap]:
    timeline = simulation.timeline
    own = range(*timeline.schedule.rank_starts[rank : rank + 2])
    found, at = [], 0
    for action in own:
        found.append((at, int(timeline.start_ns[action])))
        at = int(timeline.end_ns[action])
    return [*found, (at, simulation.makespan_ns)]


def of_first_stage(simulation: Simulation, microbatch: int) -> tuple[int, int]:
    """When its forward begins, and when its gradients are there."""
    timeline = simulation.timeline
    schedule = timeline.schedule
    starts, ends = [], [0]
    for action in range(schedule.num_actions):
        if schedule.stages[action] == 0 and schedule.units[action] // simulation.plan.sequence_splits == microbatch:
            op = Op(schedule.ops[action])
            starts += [int(timeline.start_ns[action])] if op is Op.F else []
            ends += [int(timeline.end_ns[action])] if op in (Op.B, Op.I) else []
    return min(starts), max(ends)


def in_turn(readies: Sequence[int], message_ns: int) -> Iterator[int]:
    link = None
    for ready in readies:
        link = (ready if link is None else max(link, ready)) + message_ns
        yield link


@given(simulations(), encoder_works)
def test_parts_are_in_time_and_in_nobodys_way(simulation: Simulation, work: EncoderWork):
    encoded = with_work(simulation, work).encoded
    assert encoded is not None
    schedule, makespan_ns = simulation.timeline.schedule, simulation.makespan_ns
    first = schedule.stage_ranks[0]
    every = [(encoded.forwards, work.forward_ns)]
    assert (encoded.backwards is None) == (not work.backward_ns or schedule.is_forward_only)
    if encoded.backwards is not None:
        every.append((encoded.backwards, work.backward_ns))
    for rank in range(schedule.num_ranks):
        speed = simulation.network.speed_of(rank)
        busy = [
            (int(simulation.timeline.start_ns[action]), int(simulation.timeline.end_ns[action]))
            for action in range(*schedule.rank_starts[rank : rank + 2])
        ]
        for parts, part_ns in every:
            own = parts.ranks == rank
            times = list(zip(parts.start_ns[own].tolist(), parts.end_ns[own].tolist(), strict=True))
            assert all(end - start == round(part_ns / speed) for start, end in times)
            busy += times
        busy = sorted(span for span in busy if span[1] > span[0])
        assert all(end <= start for (_, end), (start, _) in pairwise(busy))
        if not work.in_bubbles:
            assert all(
                end <= 0 or start >= makespan_ns
                for parts, _ in every
                for start, end in zip(parts.start_ns[parts.ranks == rank], parts.end_ns[parts.ranks == rank])  # noqa: B905
            )
    for parts, _ in every:
        assert sorted(parts.microbatches.tolist()) == sorted(list(range(simulation.plan.num_microbatches)) * work.parts)
    message_ns = work.message_ns if schedule.num_ranks > 1 else 0

    def arrivals(parts: EncoderParts, readies: list[int]) -> list[int]:
        order = sorted(range(len(readies)), key=readies.__getitem__)
        there = list(readies)
        sent = [place for place in order if parts.ranks[place] != first]
        for place, arrives in zip(sent, in_turn([readies[place] for place in sent], message_ns), strict=True):
            there[place] = arrives
        return there

    needed = [of_first_stage(simulation, microbatch)[0] for microbatch in encoded.forwards.microbatches.tolist()]
    for arrives, due in zip(arrivals(encoded.forwards, encoded.forwards.end_ns.tolist()), needed, strict=True):
        assert arrives <= (due if work.in_bubbles else 0)
    assert encoded.before_ns >= 0
    assert int(encoded.forwards.start_ns.min()) >= -encoded.before_ns
    if encoded.backwards is not None:
        backwards = encoded.backwards
        readies = [makespan_ns - start for start in backwards.start_ns.tolist()]
        for arrives, microbatch in zip(arrivals(backwards, readies), backwards.microbatches.tolist(), strict=True):
            assert arrives <= makespan_ns - of_first_stage(simulation, microbatch)[1]
        assert int(backwards.end_ns.max()) <= makespan_ns + encoded.behind_ns - work.summed_ns
    assert encoded.least_ns <= encoded.before_ns + encoded.behind_ns
    assert encoded.step_ns == makespan_ns + encoded.before_ns + encoded.behind_ns


def least_lead(
    gaps_of: list[list[Gap]], works_ns: Sequence[int], due: Sequence[int], message_ns: int, first: int, most: int
) -> int:
    """Try every assignment of parts to ranks, every order of messages, and every lead."""
    num_ranks = len(gaps_of)

    def ends(rank: int, count: int, lead: int) -> list[int]:
        (_, end), *others = gaps_of[rank]
        done: list[int] = []
        for begin, stop in [(-lead, end), *others]:
            fitting = range(begin + works_ns[rank], stop + 1, works_ns[rank])
            done += fitting[: count - len(done)]
        return done

    def fits(lead: int) -> bool:
        for owners in product(range(num_ranks), repeat=len(due)):
            left = [ends(rank, owners.count(rank), lead) for rank in range(num_ranks)]
            if any(len(left[rank]) < owners.count(rank) for rank in range(num_ranks)):
                continue
            readies = [left[owner].pop(0) for owner in owners]
            sent = [place for place in range(len(due)) if owners[place] != first]
            if any(readies[place] > due[place] for place in range(len(due)) if owners[place] == first):
                continue
            for order in permutations(sent):
                there = in_turn([readies[place] for place in order], message_ns)
                if all(arrives <= due[place] for place, arrives in zip(order, there, strict=True)):
                    return True
        return False

    return next(lead for lead in range(most + 1) if fits(lead))


@given(
    st.sampled_from([("1f1b", 2, 2), ("1f1b", 3, 1), ("f-then-b", 2, 2), ("zb-h1", 2, 2)]),
    st.integers(1, 6),
    st.integers(0, 6),
    st.integers(0, 3),
    st.lists(st.sampled_from([1.0, 0.5]), min_size=3, max_size=3),
)
def test_no_way_to_place_parts_takes_less(sizes, forward_ns, backward_ns, message_ns, speeds):
    schedule, num_ranks, parts = sizes
    work = EncoderWork(
        parts=parts, forward_ns=forward_ns, backward_ns=backward_ns, message_ns=message_ns, in_bubbles=True
    )
    ranks = tuple(RankTraits(speed=speed) for speed in speeds[:num_ranks])
    network = replace(equal_network(num_ranks + 1, forward_ns=2, backward_ns=4), encoder_work=work, ranks=ranks)
    plan = Plan(schedule=schedule, num_microbatches=2, layers=((2, *[1] * (num_ranks - 1)),))
    simulation = simulate(network, plan)
    encoded = simulation.encoded
    assert encoded is not None
    own = [gaps(simulation, rank) for rank in range(num_ranks)]
    due = [of_first_stage(simulation, microbatch)[0] for microbatch in (0, 1) for _ in range(parts)]
    works_ns = [round(forward_ns / rank.speed) for rank in ranks]
    assert encoded.before_ns == least_lead(own, works_ns, due, message_ns, 0, 100)
    if backward_ns:
        makespan = simulation.makespan_ns
        mirrored = [[(makespan - end, makespan - begin) for begin, end in reversed(spans)] for spans in own]
        due = sorted(
            makespan - of_first_stage(simulation, microbatch)[1] for microbatch in (0, 1) for _ in range(parts)
        )
        works_ns = [round(backward_ns / rank.speed) for rank in ranks]
        behind = least_lead(mirrored, works_ns, due, message_ns, 0, 100)
        assert encoded.least_ns == encoded.before_ns + behind


def test_ranks_that_wait_take_what_the_first_has_no_time_for():
    work = EncoderWork(parts=1, forward_ns=10, backward_ns=20, in_bubbles=True)
    network = replace(equal_network(4, forward_ns=10, backward_ns=20), encoder_work=work)
    simulation = simulate(network, Plan(schedule="1f1b", num_microbatches=8, layers=((1, 1, 1, 1),)))
    encoded = simulation.encoded
    assert encoded is not None
    assert (encoded.before_ns, encoded.behind_ns) == (10, 20), "the first part waits for nobody, the last for all"
    assert encoded.forwards_in_bubbles == encoded.backwards_in_bubbles == 4
    apart = with_work(simulation, replace(work, in_bubbles=False)).encoded
    assert apart is not None
    assert (apart.before_ns, apart.behind_ns) == (20, 40)
    assert apart.forwards_in_bubbles == apart.backwards_in_bubbles == 0


def test_without_encoders_there_is_nothing_to_say():
    simulation = simulate(equal_network(2), Plan(schedule="1f1b", num_microbatches=1, layers=((1, 1),)))
    assert simulation.encoded is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parts": 0}, "the parts of what encoders do for a microbatch must be"),
        ({"forward_ns": 0}, "the forward of encoders must take some time, got 0; give its time"),
        ({"message_ns": -1}, "the message of encoders must be"),
    ],
)
def test_work_that_cannot_be(changes, message):
    with pytest.raises(InputError, match=message):
        EncoderWork(**{"parts": 1, "forward_ns": 1, "backward_ns": 1, **changes})
