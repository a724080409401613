"""The network that timelines tell: times, but no memory."""

from evenflow.model import EndBlock
from evenflow.profiles.traces.layer_times import BlockTime, SampleSpread
from evenflow.profiles.traces.reader import TraceTimes
from evenflow.profiles.traces.trace_network import network_of_traces


def block(name: str, forward_ns: int, backward_ns: int | None) -> BlockTime:
    spread = SampleSpread(minimum_ns=forward_ns, median_ns=forward_ns, maximum_ns=forward_ns)
    return BlockTime(
        name=name, forward_ns=forward_ns, forward_spread=spread, backward_ns=backward_ns, backward_spread=None,
        num_samples=1, scopes=(), files=(),
    )  # fmt: skip


def test_a_run_for_each_body_and_a_backward_where_the_trace_shows_it() -> None:
    times = TraceTimes(
        head=None, bodies=(block("A", 10, 25), block("B", 7, None)), tail=block("Norm", 3, None), files=(), notes=()
    )
    network = network_of_traces(times, (4, 2), name="net")
    assert [(run.count, run.layer.forward_ns, run.layer.backward_ns) for run in network.runs] == [
        (4, 10, 25),
        (2, 7, 14),
    ]
    assert (network.name, network.has_memory, network.head) == ("net", False, EndBlock())
    assert (network.tail.name, network.tail.forward_ns, network.tail.backward_ns) == ("Norm", 3, 6)
