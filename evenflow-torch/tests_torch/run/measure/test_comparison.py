"""Measured steps beside the prediction."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import Communication, HostLink, Plan
from evenflow.schedule import FAMILIES, Op
from evenflow.schedule.action import NUM_OPS
from evenflow.simulate import build_graph, run, with_copies
from evenflow.simulate.costs import duration_table
from evenflow_torch.run.engine.order import runnable_order
from evenflow_torch.run.measure.comparison import Comparison, by_run, compare, interval_of
from evenflow_torch.run.values.run_result import Conditions, Overhead, RankResult, RunResult
from tests.thoroughness import examples


@settings(max_examples=examples(25))
@given(
    st.sampled_from(sorted(FAMILIES)), st.integers(1, 3), st.integers(0, 50), st.integers(0, 9),
    st.none() | st.builds(HostLink, bytes_per_s=st.just(1), one_engine=st.booleans(), ahead=st.integers(0, 2)),
    st.randoms(),
)  # fmt: skip
def test_a_run_that_goes_as_simulated_is_predicted_exactly(
    family: str, ranks: int, message_ns: int, overhead_ns: int, link: HostLink | None, random: Any
) -> None:
    chunks = FAMILIES[family].num_chunks or 2
    plan = Plan(schedule=family, num_microbatches=2 * ranks, layers=((1,) * ranks,) * chunks)
    schedule = runnable_order(plan)
    stages = range(schedule.num_stages)
    forward, backward = ([random.randint(1, 99) for _ in stages] for _ in range(2))
    weight = [random.randint(1, time) if schedule.splits_backward else 0 for time in backward]
    overhead = Overhead(action_ns=overhead_ns, send_ns=2 * overhead_ns, receive_ns=3 * overhead_ns)
    table = duration_table(*(np.array(times) for times in (forward, backward, weight)))
    for stage in stages:
        for op in Op:
            # A forward's input comes from the stage before and its result goes to the one after; a backward's the other
            # way round; a weight gradient needs no message.
            for step, cost in ((-1, overhead.receive_ns), (1, overhead.send_ns)):
                other = stage + (step if op == Op.F else -step)
                if op != Op.W and 0 <= other < schedule.num_stages:
                    table[NUM_OPS * stage + op] += cost * (schedule.stage_ranks[other] != schedule.stage_ranks[stage])
            table[NUM_OPS * stage + op] += overhead_ns
    copies = [random.randint(1, 99) for _ in stages]
    graph = build_graph(schedule) if link is None else with_copies(build_graph(schedule), link)
    timeline = run(graph, np.concatenate((table, copies, [0])), Communication(latency_ns=message_ns))
    results = []
    for rank in range(ranks):
        span = range(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
        rows = [
            (int(schedule.ops[i]), int(schedule.stages[i]), int(schedule.units[i]),
             int(timeline.start_ns[i]) + 777, int(timeline.end_ns[i]) + 777)
            for i in span
        ]  # fmt: skip
        own = [stage for stage in stages if schedule.stage_ranks[stage] == rank]
        results.append(
            RankResult(
                forward_ns={stage: forward[stage] for stage in own},
                backward_ns={stage: backward[stage] for stage in own},
                weight_ns={stage: weight[stage] for stage in own},
                activation_bytes=dict.fromkeys(own, 10),
                until_weight_bytes=dict.fromkeys(own, 5),
                static_bytes=100,
                working_bytes=7,
                peak_bytes=0,
                actions=[rows],
                offloaded_bytes={} if link is None else dict.fromkeys(own, 3),
                copy_ns={} if link is None else {stage: copies[stage] for stage in own},
                runs={stage: ((forward[stage], backward[stage], weight[stage]),) * 5 for stage in own},
            )
        )
    result = RunResult(
        model="m", num_parameters=1, losses=[1.0], message_ns=message_ns, overhead=overhead,
        ranks=results, verification=None,
    )  # fmt: skip
    comparison = compare(schedule, result, link)
    assert comparison.error == 0
    assert comparison.actions_off_ns == comparison.messages_off_ns == 0
    assert comparison.step_ns == (timeline.makespan_ns,)
    assert (comparison.interval_ns, comparison.share_inside) == ((timeline.makespan_ns,) * 2, 1.0)
    assert np.array_equal(comparison.predicted.start_ns, comparison.measured.start_ns)
    assert comparison.predicted.has_copies == timeline.has_copies
    assert not comparison.measured.has_copies
    assert all(peak >= 117 for peak in comparison.predicted_peak_bytes)


def one_rank(*, runs_late: bool, rehearsals: tuple[int, ...] = ()) -> Comparison:
    """Forwards of 10 ns and backwards of 20 ns; if late, 5 ns longer in the step, with 3 ns between actions."""
    plan = Plan(schedule="1f1b", num_microbatches=2, layers=((1,),))
    longer, gap = (5, 3) if runs_late else (0, 0)
    rows, now = [], 0
    for microbatch in range(2):
        for op, time in ((Op.F, 10), (Op.B, 20)):
            rows.append((int(op), 0, microbatch, now, now + time + longer))
            now += time + longer + gap
    rank = RankResult(
        forward_ns={0: 10}, backward_ns={0: 20}, weight_ns={0: 0}, activation_bytes={0: 0}, until_weight_bytes={0: 0},
        static_bytes=0, working_bytes=0, peak_bytes=0, actions=[rows],
    )  # fmt: skip
    result = RunResult(
        model="m", num_parameters=1, losses=[1.0], message_ns=0,
        overhead=Overhead(action_ns=0, send_ns=0, receive_ns=0), ranks=[rank], verification=None,
        rehearsals_ns=rehearsals,
    )  # fmt: skip
    return compare(runnable_order(plan), result)


@pytest.mark.parametrize(
    ("waiting", "load_ns"), [((0.0, 0.1), 9), ((0.1, 0.9), 20), ((0.5, 0.2), 0), ((None, 0.2), None)]
)
def test_what_a_step_is_longer_for_is_told_apart(waiting: tuple[float | None, float], load_ns: int | None) -> None:
    comparison = one_rank(runs_late=True)
    assert (comparison.predicted.makespan_ns, comparison.measured.makespan_ns) == (60, 89)
    assert (comparison.actions_off_ns, comparison.messages_off_ns) == (20, 9)
    conditions = Conditions(runs=7, error=0.01, waiting=waiting[0], step_waiting=waiting[1])
    assert comparison.load_off_ns(conditions) == load_ns
    assert one_rank(runs_late=False).load_off_ns(conditions) == (None if load_ns is None else 0)


def test_steps_before_the_training_say_between_which_times_those_of_it_are() -> None:
    assert one_rank(runs_late=True).interval_ns is None, "no runs were noted"
    comparison = one_rank(runs_late=True, rehearsals=(80, 95, 88))
    assert (comparison.interval_ns, comparison.share_inside, comparison.is_rehearsed) == ((80, 95), 1.0, True)
    assert one_rank(runs_late=True, rehearsals=(80, 88)).share_inside == 0.0


@settings(max_examples=examples(50))
@given(st.lists(st.integers(1, 10_000), min_size=5, max_size=40))
def test_an_interval_holds_four_fifths_of_what_it_is_made_of(steps: list[int]) -> None:
    interval = interval_of(steps)
    assert interval is not None
    least, most = interval
    assert min(steps) <= least <= most <= max(steps)
    assert sum(not least <= step <= most for step in steps) <= 0.2 * len(steps) + 2
    assert interval_of(steps[:4]) is None


def test_runs_are_those_of_all_ranks_at_the_same_time() -> None:
    ranks = [
        RankResult(
            forward_ns={}, backward_ns={}, weight_ns={}, activation_bytes={}, until_weight_bytes={}, static_bytes=0,
            working_bytes=0, peak_bytes=0, actions=[], runs={stage: ((1 + stage, 2, 0), (10 + stage, 20, 5))},
        )
        for stage in range(2)
    ]  # fmt: skip
    first, second = by_run(ranks)
    assert [rank.forward_ns for rank in first] == [{0: 1}, {1: 2}]
    assert [rank.weight_ns for rank in second] == [{0: 5}, {1: 5}]
    assert not list(by_run([*ranks, replace(ranks[0], runs={2: ()})])), "a stage that was not measured"
