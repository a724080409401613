"""The union of critical paths, merged into chains."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenflow.schedule import NUM_OPS, make_schedule
from evenflow.simulate import build_graph
from evenflow.solve.master.critical_paths import Chains, CriticalPaths


def longest(chains: Chains, durations: np.ndarray) -> int:
    """The longest path over the chains alone; targets are in topological order."""
    ends = {0: 0}
    for chain, (source, target, _) in enumerate(chains.ends.tolist()):
        own = slice(chains.starts[chain], chains.starts[chain + 1])
        work = int((durations[chains.classes[own]] * chains.counts[own]).sum() + chains.messages_ns[chain])
        ends[target] = max(ends.get(target, 0), ends[source] + work)
    return max((ends[sink] for sink in chains.sinks.tolist()), default=0)


@st.composite
def cases(draw: st.DrawFn) -> tuple[CriticalPaths, list[np.ndarray]]:
    chunks = draw(st.integers(1, 3))
    sizes = {"num_ranks": draw(st.integers(1, 4)), "num_chunks": chunks, "num_microbatches": draw(st.integers(1, 6))}
    schedule = make_schedule("interleaved" if chunks > 1 else "1f1b", **sizes)
    graph = build_graph(schedule)
    paths = CriticalPaths(graph, graph.crosses_ranks * np.int64(draw(st.sampled_from([0, 5]))))
    count = NUM_OPS * schedule.num_stages
    durations = st.lists(st.integers(1, 50), min_size=count, max_size=count)
    return paths, [np.array(draw(durations), dtype=np.int64) for _ in range(3)]


@given(cases())
def test_the_union_holds_the_critical_paths_added_and_no_longer_ones(case: tuple[CriticalPaths, list[np.ndarray]]):
    paths, (first, second, third) = case
    for durations in (first, second):
        assert paths.add_longest(durations, above_ns=0) or durations is second
        assert not paths.add_longest(durations, above_ns=0), "nothing of it is new the second time"
    chains = paths.chains()
    for durations in (first, second):
        assert longest(chains, durations) == paths.makespan(durations)
    assert longest(chains, third) <= paths.makespan(third)


@given(cases())
def test_what_is_not_needed_is_forgotten(case: tuple[CriticalPaths, list[np.ndarray]]):
    paths, (first, second, _) = case
    paths.add_longest(first, above_ns=0)
    before = paths.chains()
    expected = longest(before, first)
    paths.add_longest(second, above_ns=0)
    both = paths.chains()
    paths.keep(both, np.ones(len(both), dtype=bool))
    assert len(paths.chains()) == len(both)
    paths.keep(both, np.zeros(len(both), dtype=bool))
    assert len(paths.chains()) == 0
    paths.add_longest(first, above_ns=0)
    assert longest(paths.chains(), first) == expected


@given(cases())
def test_counted_paths_are_paths_and_the_longest_of_their_ranks(case: tuple[CriticalPaths, list[np.ndarray]]):
    paths, (first, second, _) = case
    makespan = paths.makespan(first)
    counts, message_counts, messages = paths.count_longest(first, above_ns=-1)
    assert (message_counts <= counts).all()
    assert (message_counts.sum(axis=1) * 5 >= messages).all()
    assert (counts @ first + messages).max() == makespan
    assert (counts @ second + messages <= paths.makespan(second)).all(), "no path is longer than the longest"
    assert len(paths.count_longest(first, above_ns=makespan).counts) == 0
