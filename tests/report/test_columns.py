from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenflow.report import report_html, shown_simulation
from evenflow.report.columns import decoded, encoded, unzigzag, zigzag
from evenflow.simulate import Simulation, memory_curve
from tests.report.decoder import numbers, read_page, signed, times
from tests.strategies import simulations


@given(st.lists(st.integers(0, 2**63 - 1)))
def test_numbers_read_back(values: list[int]):
    code = encoded(np.array(values, dtype=np.int64))
    assert numbers(code) == values
    again = decoded(code)
    assert again is not None
    assert again.tolist() == values


@given(st.lists(st.integers(-(2**62), 2**62 - 1)))
def test_signed_numbers_read_back(values: list[int]):
    coded = zigzag(np.array(values, dtype=np.int64))
    assert [signed(value) for value in numbers(encoded(coded))] == values
    assert unzigzag(coded).tolist() == values


@given(st.binary(max_size=30))
def test_any_bytes_are_numbers_or_nothing(data: bytes):
    found = decoded(data)
    if found is None:
        ends = [index for index, byte in enumerate(data) if byte < 128]
        longest = max(after - before for before, after in pairwise([-1, *ends, len(data)]))
        assert data[-1] >= 128 or longest > 9
    else:
        assert found.tolist() == numbers(data)


@given(simulations())
def test_columns_give_the_timeline_back(simulation: Simulation):
    timeline, schedule = simulation.timeline, simulation.timeline.schedule
    page = read_page(report_html([shown_simulation(simulation, name="x", memory_limit_bytes=None)], title="x"))
    (head,), (columns,) = page.head["timelines"], page.columns
    assert columns["op"] == schedule.ops.tolist()
    assert columns["stage"] == schedule.stages.tolist()
    assert columns["unit"] == schedule.units.tolist()
    starts, ends, last = times(head, columns)
    assert starts == timeline.start_ns.tolist()
    assert ends == timeline.end_ns.tolist()
    assert last == [timeline.makespan_ns] * schedule.num_ranks
    assert head["makespan_ns"] == timeline.makespan_ns
    assert columns["recompute_ns"] == simulation.recompute_ns.tolist()
    for index, source in enumerate(columns["input"]):
        ready = ends[source] + columns["message_ns"][index] if source >= 0 else 0
        assert ready <= starts[index]
        waited = columns["gap_ns"][index] > 0 and not schedule.has_pairs  # a pair waits for the inputs of both
        assert not waited or ready == starts[index], "a gap ends when the input is there"


@given(simulations())
def test_columns_give_the_memory_back(simulation: Simulation):
    timeline, schedule = simulation.timeline, simulation.timeline.schedule
    page = read_page(report_html([shown_simulation(simulation, name="x", memory_limit_bytes=None)], title="x"))
    (head,), (columns,) = page.head["timelines"], page.columns
    if not simulation.network.has_memory:
        assert "memory" not in columns
        assert head["peak_bytes"] is None
        return
    for rank in range(schedule.num_ranks):
        held, curve = head["static_bytes"][rank] + head["working_bytes"][rank], []
        for index in range(*head["rank_starts"][rank : rank + 2]):
            change = columns["memory"][index]
            curve += [held + change] if not schedule.is_forward_only else [held + change, held]
            held = curve[-1]
        _times_ns, expected = memory_curve(timeline, simulation.costs, rank)
        assert curve == expected[1:].tolist()
        assert head["peak_bytes"][rank] == max(curve, default=head["static_bytes"][rank])
