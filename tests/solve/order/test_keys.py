"""Keys for list scheduling: microbatches in turn, and the starts that an order leaves open."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import Communication
from evenflow.schedule import Action, Op, Schedule, make_schedule
from evenflow.simulate import build_graph, run
from evenflow.solve.order.keys import disturbed_keys, template_keys
from evenflow.solve.work import Work, make_work
from tests.oracle import orders_of
from tests.solve.order.cases import as_work, small_work
from tests.solve.order.oracle import Small
from tests.strategies import inputs_of
from tests.thoroughness import examples

KINDS = {Op.F: 0, Op.B: 1, Op.I: 1, Op.W: 2}


class Undisturbed:
    """A source of draws that takes the option at `place` and disturbs nothing."""

    def __init__(self, place: int) -> None:
        self._places = iter((place, 0))

    def choice(self, options: Sequence[float]) -> float:
        return options[next(self._places)]

    def uniform(self) -> float:
        return 0.5

    def standard_normal(self, count: int) -> np.ndarray:
        return np.ones(count)


@settings(max_examples=examples(50))
@given(small_work(), st.integers(0, 1000))
def test_microbatches_come_in_turn_and_weight_gradients_not_before_their_gradients(small: Small, seed: int):
    keys = template_keys(as_work(small), np.random.default_rng(seed))
    assert keys.shape == (3, small.num_stages, small.num_microbatches)
    assert (np.diff(keys, axis=2) > 0).all()
    assert (keys[2] >= keys[1]).all()
    assert (keys == template_keys(as_work(small), np.random.default_rng(seed))).all()


def starts_of(work: Work, schedule: Schedule, place: int) -> dict[Action, float]:
    keys = disturbed_keys(work, schedule, Undisturbed(place))  # type: ignore[arg-type]
    return {
        action: keys[KINDS[action.op], action.stage, action.microbatch]
        for order in orders_of(schedule)
        for action in order
    }


@settings(max_examples=examples(40))
@given(small_work(), st.sampled_from(["1f1b", "f-then-b", "zb-h1"]), st.sampled_from([0, 3]))
def test_earliest_and_latest_starts_are_timetables_of_the_same_step(small: Small, family: str, message_ns: int):
    ranks = small.num_stages
    schedule = make_schedule(family, num_ranks=ranks, num_chunks=1, num_microbatches=small.num_microbatches)
    stage_costs = as_work(Small(**{
        **{name: getattr(small, name) for name in ("num_microbatches", "forward", "backward", "weight", "activation")},
        "stage_ranks": tuple(range(ranks)), "waiting": small.waiting, "room": (99,) * ranks, "may_split": True,
    })).costs  # fmt: skip
    communication = Communication(latency_ns=message_ns) if message_ns else None
    work = make_work(stage_costs, schedule, memory_limit_bytes=None, communication=communication, split_backward=True)
    timeline = run(build_graph(schedule), stage_costs.durations, communication)
    early, late = (starts_of(work, schedule, place) for place in (0, 1))
    rank_of = {action: rank for rank, order in enumerate(orders_of(schedule)) for action in order}

    def duration(action: Action) -> int:
        whole, weight = small.backward[action.stage], small.weight[action.stage]
        return {Op.F: small.forward[action.stage], Op.B: whole, Op.I: whole - weight, Op.W: weight}[action.op]

    for starts in (early, late):
        assert max(start + duration(action) for action, start in starts.items()) == timeline.makespan_ns
        for order in orders_of(schedule):
            for before, after in pairwise(order):
                assert starts[before] + duration(before) <= starts[after]
        for action, start in starts.items():
            for needed in set(inputs_of(action, ranks)) & starts.keys():
                message = message_ns if rank_of[needed] != rank_of[action] else 0
                assert starts[needed] + duration(needed) + message <= start
    assert all(early[action] <= late[action] for action in early)
    assert any(early[action] == late[action] for action in early), "a critical path has no slack"
