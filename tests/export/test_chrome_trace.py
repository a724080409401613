import re
import tracemalloc
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evenflow.baselines.equal_stages import equal_stages
from evenflow.export.chrome_trace import COPY, ENCODER, IDLE, RECOMPUTE, TracedStep, chrome_trace
from evenflow.model import FULL, Communication, EncoderWork, EndBlock, Layer, LayerRun, Mode, Network, Plan, cells
from evenflow.schedule import Op, make_schedule
from evenflow.simulate import Simulation, memory_curve, simulate
from tests.export.trace_reader import ReadTrace, Slice, critical_path, read_trace
from tests.simulate.test_simulation import simulations
from tests.solve.exhaustive import Case
from tests.solve.test_offload import offloads
from tests.strategies import encoder_works, inputs_of, moving_simulations

CAUSES = {
    "fill and drain": "fill_drain_ns",
    "imbalance": "imbalance_ns",
    "recompute": "recompute_ns",
    "communication": "communication_ns",
    "host copies": "host_copies_ns",
}
CATEGORIES = {"forward": Op.F, "backward": Op.B, "input gradient": Op.I, "weight gradient": Op.W}


def work(trace: ReadTrace) -> list[Slice]:
    return [each for each in trace.slices if each.category in CATEGORIES]


def key(each: Slice, splits: int) -> tuple[int, Op, int]:
    """Stage, operation and unit, from the arguments alone."""
    unit = each.arguments["microbatch"] * splits + each.arguments.get("part", 0)
    return each.arguments["stage"], CATEGORIES[each.category], unit


@given(simulations())
def test_every_action_is_a_slice_at_its_time(simulation: Simulation):
    timeline = simulation.timeline
    schedule = timeline.schedule
    trace = read_trace(chrome_trace([TracedStep.of(simulation)]))
    found = {}
    for each in work(trace):
        stage, op, unit = key(each, schedule.sequence_splits)
        assert (stage, op, unit) not in found
        found[stage, op, unit] = (each.process - 1, each.start_ns, each.end_ns)
        assert each.arguments["chunk"] == schedule.stage_chunks[stage]
        assert each.name.startswith(f"{op.name}{each.arguments['microbatch']}")
        assert trace.threads[each.process, each.thread] == "work"
    times = zip(timeline.start_ns.tolist(), timeline.end_ns.tolist(), strict=True)
    expected = zip(schedule.stages, schedule.ops, schedule.units, schedule.ranks.tolist(), times, strict=True)
    assert found == {(stage, Op(op), unit): (rank, *span) for stage, op, unit, rank, span in expected}
    assert trace.processes == {rank + 1: f"rank {rank}" for rank in range(schedule.num_ranks)}


@given(simulations(), st.data())
def test_a_cut_trace_has_the_first_and_the_last_actions(simulation: Simulation, data: st.DataObject):
    step, count = TracedStep.of(simulation), simulation.timeline.schedule.num_actions
    most = data.draw(st.integers(0, count + 1))
    every, text = read_trace(chrome_trace([step])), chrome_trace([step], most_actions=most)
    cut = read_trace(text)
    assert len(work(cut)) == min(most, count)
    assert set(map(str, cut.slices)) <= set(map(str, every.slices))
    assert (f'"{count - most:,} actions are left out' in text) == (most < count)
    if most >= count:
        assert text == chrome_trace([step])
        return
    starts = sorted(each.start_ns for each in work(every))
    first = (most + 1) // 2
    assert sorted(each.start_ns for each in work(cut)) == starts[:first] + starts[len(starts) - (most - first) :]


def test_steps_of_a_cut_trace_have_equal_shares():
    schedule = make_schedule("1f1b", num_ranks=2, num_chunks=1, num_microbatches=50)
    step = TracedStep.of(equal_stages(schedule, forward_ns=1000, backward_ns=2000))
    cut = read_trace(chrome_trace([step, step], most_actions=60))
    assert Counter(each.process > 2 for each in work(cut)) == {False: 30, True: 30}


def test_a_large_trace_takes_little_more_memory_than_its_text() -> None:
    schedule = make_schedule("1f1b", num_ranks=2, num_chunks=1, num_microbatches=4000)
    step = TracedStep.of(equal_stages(schedule, forward_ns=1000, backward_ns=2000))
    length = len(chrome_trace([step]))
    tracemalloc.start()
    chrome_trace([step])
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2.5 * length, (most, length)


@given(simulations())
def test_arrows_are_the_dependencies(simulation: Simulation):
    schedule = simulation.timeline.schedule
    trace = read_trace(chrome_trace([TracedStep.of(simulation)]))

    def action(index: int) -> tuple[int, Op, int]:
        return key(trace.slices[index], schedule.sequence_splits)

    arrows = {(action(here), action(there)) for here, there in trace.arrows}
    assert len(arrows) == len(trace.arrows)
    actions = {
        (each.stage, each.op, each.microbatch): each
        for rank in range(schedule.num_ranks)
        for each in schedule.order(rank)
    }
    expected = {
        ((needed.stage, needed.op, needed.microbatch), name)
        for name, each in actions.items()
        if each.op != Op.W  # on its rank, after the input gradient
        for needed in inputs_of(each, schedule.num_stages)
        if (needed.stage, needed.op, needed.microbatch) in actions
    }
    assert arrows == expected


@given(simulations())
def test_slices_and_arrows_have_the_critical_path(simulation: Simulation):
    timeline, costs = simulation.timeline, simulation.communication
    trace = read_trace(chrome_trace([TracedStep.of(simulation)]))
    assume(
        not timeline.schedule.has_pairs
    )  # a pair begins once both inputs are there, and gives both outputs at its end
    path = critical_path(trace, message_ns=costs.message_ns if costs else 0, without=(RECOMPUTE, IDLE))
    assert trace.slices[path[-1]].end_ns == simulation.makespan_ns
    known = timeline.critical_path()
    spent = sum(int(timeline.end_ns[index] - timeline.start_ns[index]) for index in known)
    assert sum(trace.slices[index].end_ns - trace.slices[index].start_ns for index in path) == spent


@given(simulations())
def test_recomputation_is_at_the_beginning_of_its_backward(simulation: Simulation):
    trace = read_trace(chrome_trace([TracedStep.of(simulation)]))
    spent = Counter[int]()
    outer = None
    for each in trace.slices:
        if each.category in CATEGORIES:
            outer = each
        if each.category != RECOMPUTE:
            continue
        assert outer is not None
        assert outer.category in ("backward", "input gradient")
        assert (each.process, each.thread, each.start_ns) == (outer.process, outer.thread, outer.start_ns)
        assert each.end_ns <= outer.end_ns
        spent[each.process - 1] += each.end_ns - each.start_ns
    schedule = simulation.timeline.schedule
    for rank in range(schedule.num_ranks):
        span = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
        assert spent[rank] == simulation.recompute_ns[span].sum()


@given(simulations() | moving_simulations())
def test_gaps_are_filled_by_their_causes(simulation: Simulation):
    trace = read_trace(chrome_trace([TracedStep.of(simulation)]))
    spent = Counter[tuple[int, str]]()
    for rank, idle in enumerate(simulation.idle):
        process = rank + 1
        here = [each for each in trace.slices if each.process == process and each.category not in (RECOMPUTE, COPY)]
        covered = sorted((each.start_ns, each.end_ns) for each in here)
        ends = [0, *(end for _, end in covered)]
        assert [start for start, _ in covered] == ends[:-1], "no gap is left, and nothing overlaps"
        assert ends[-1] == simulation.makespan_ns
        for each in here:
            if each.category == IDLE:
                assert trace.threads[process, each.thread] == "idle by cause"
                spent[rank, each.name] += each.end_ns - each.start_ns
        assert sum(spent[rank, name] for name in CAUSES) == idle.total_ns
    for name, field in CAUSES.items():
        known = getattr(simulation.idle_gaps, field).sum()
        assert sum(spent[rank, name] for rank in range(len(simulation.idle))) == known


@given(simulations(), st.none() | st.integers(1, 10**6))
def test_counters_are_the_memory_and_its_limit(simulation: Simulation, limit: int | None):
    trace = read_trace(chrome_trace([TracedStep.of(simulation, memory_limit_bytes=limit)]))
    for rank, peak in enumerate(simulation.peak_memory_bytes):
        times, held = memory_curve(simulation.timeline, simulation.costs, rank)
        counted = trace.counters[rank + 1, "memory"]
        assert counted == list(zip(times.tolist(), held.tolist(), strict=True))
        assert max(size for _, size in counted) == peak
        limits = {size for _, size in trace.counters.get((rank + 1, "memory limit"), [])}
        assert limits == ({limit} if limit is not None else set())


@given(offloads(), st.data())
def test_copies_are_slices_at_their_times(case: Case, data: st.DataObject):
    problem = case.problem()
    counts = np.zeros((problem.num_cells, len(problem.kinds)), dtype=np.int64)
    for cell, (before, after) in enumerate(pairwise(data.draw(st.sampled_from(case.cuts())))):
        counts[cell, data.draw(st.integers(0, len(problem.kinds) - 1))] = after - before
    simulation = simulate(case.network, problem.plan(counts), schedule=case.schedule, communication=case.communication)
    timeline, schedule = simulation.timeline, simulation.timeline.schedule
    trace = read_trace(chrome_trace([TracedStep.of(simulation)]))
    found = sorted(
        (trace.threads[each.process, each.thread], each.process - 1, each.start_ns, each.end_ns)
        for each in trace.slices
        if each.category == COPY
    )
    assert timeline.has_copies == bool(found) == ("to host" in trace.threads.values())
    copied, starts, ends = timeline.graph.copied, timeline.copy_start_ns, timeline.copy_end_ns
    if copied is None or starts is None or ends is None:
        return
    expected = [
        (name, int(rank), int(start), int(end))
        for way, name in enumerate(("to host", "from host"))
        for rank, start, end in zip(schedule.ranks[copied[way]], starts[way], ends[way], strict=True)
        if end > start
    ]
    assert found == sorted(expected)


@given(simulations(), encoder_works)
def test_what_encoders_do_are_slices_and_the_step_begins_with_them(simulation: Simulation, beside: EncoderWork):
    encoding = replace(simulation, network=replace(simulation.network, encoder_work=beside))
    encoded = encoding.encoded
    assert encoded is not None
    trace = read_trace(chrome_trace([TracedStep.of(encoding)]))
    slices = sorted((each.process - 1, each.start_ns, each.end_ns) for each in trace.slices if each.category == ENCODER)
    both = [done for done in (encoded.forwards, encoded.backwards) if done is not None]
    late = encoded.before_ns
    expected = [
        (int(rank), int(start) + late, int(end) + late)
        for done in both
        for rank, start, end in zip(done.ranks, done.start_ns, done.end_ns, strict=True)
    ]
    assert slices == sorted(expected)
    assert min(each.start_ns for each in trace.slices) >= 0
    starts = [each.start_ns for each in work(trace)]
    assert min(starts) == late + int(simulation.timeline.start_ns.min())


@given(st.lists(simulations(), min_size=2, max_size=3))
def test_steps_have_processes_and_flows_of_their_own(several: list[Simulation]):
    steps = [TracedStep.of(each, name=f"plan {number}") for number, each in enumerate(several)]
    together = read_trace(chrome_trace(steps))
    alone = [read_trace(chrome_trace([TracedStep.of(each)])) for each in several]
    names = [f"plan {number}: {name}" for number, each in enumerate(alone) for name in each.processes.values()]
    assert list(together.processes.values()) == names
    assert len(together.slices) == sum(len(each.slices) for each in alone)
    assert len(together.arrows) == sum(len(each.arrows) for each in alone)
    group = {process: name.split(":")[0] for process, name in together.processes.items()}
    for here, there in together.arrows:
        assert group[together.slices[here].process] == group[together.slices[there].process]


def small(*, has_memory: bool = True) -> Simulation:
    """Three layers on two ranks, of which one recomputes; read by a person."""
    layer = Layer(
        name="layer",
        forward_ns=1_000_001,
        parameter_bytes=100,
        modes={
            "none": Mode(activation_bytes=10, backward_ns=2_000_000),
            FULL: Mode(activation_bytes=1, backward_ns=3_000_001),
        },
    )
    network = Network(
        name="small",
        runs=(LayerRun(layer=layer, count=3),),
        tail=EndBlock(name="tail", forward_ns=5),
        has_memory=has_memory,
    )
    plan = Plan(schedule="1f1b", num_microbatches=1, layers=cells([[2, 1]]), recompute={FULL: cells([[1, 0]])})
    return simulate(network, plan, communication=Communication(latency_ns=7))


def test_the_text_of_a_small_step():
    events = """\
{"ph":"M","pid":1,"name":"process_name","args":{"name":"rank 0"}},
{"ph":"M","pid":1,"name":"process_sort_index","args":{"sort_index":1}},
{"ph":"M","pid":1,"tid":1,"name":"thread_name","args":{"name":"work"}},
{"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"idle by cause"}},
{"ph":"M","pid":2,"name":"process_name","args":{"name":"rank 1"}},
{"ph":"M","pid":2,"name":"process_sort_index","args":{"sort_index":2}},
{"ph":"M","pid":2,"tid":1,"name":"thread_name","args":{"name":"work"}},
{"ph":"M","pid":2,"tid":2,"name":"thread_name","args":{"name":"idle by cause"}},
"""
    text = chrome_trace([TracedStep.of(small(), memory_limit_bytes=300)])
    assert text.startswith('{\n  "displayTimeUnit": "ns",\n  "traceEvents": [\n' + events)
    assert text.endswith("}\n]\n}\n")
    assert text == chrome_trace([TracedStep.of(small(), memory_limit_bytes=300)])
    lines = text.removesuffix("\n]\n}\n").split(",\n")
    assert [line for line in lines if '"tid":1,"ts"' in line] == [
        '{"ph":"B","pid":1,"tid":1,"ts":0.000,"bind_id":"0x1","flow_out":true,"name":"F0","cat":"forward",'
        '"args":{"stage": 0, "chunk": 0, "layers": "0 to 1", "recompute": "full on 1", "microbatch": 0}}',
        '{"ph":"E","pid":1,"tid":1,"ts":2000.002}',
        '{"ph":"B","pid":2,"tid":1,"ts":2000.009,"bind_id":"0x1","flow_in":true,"flow_out":true,'
        '"name":"F0","cat":"forward","args":{"stage": 1, "chunk": 0, "layers": "2", "microbatch": 0}}',
        '{"ph":"E","pid":2,"tid":1,"ts":3000.015}',
        '{"ph":"B","pid":2,"tid":1,"ts":3000.015,"bind_id":"0x1","flow_in":true,"flow_out":true,'
        '"name":"B0","cat":"backward","args":{"stage": 1, "chunk": 0, "layers": "2", "microbatch": 0}}',
        '{"ph":"E","pid":2,"tid":1,"ts":5000.015}',
        '{"ph":"B","pid":1,"tid":1,"ts":5000.022,"bind_id":"0x1","flow_in":true,"name":"B0",'
        '"cat":"backward","args":{"stage": 0, "chunk": 0, "layers": "0 to 1", "recompute": "full on 1", '
        '"microbatch": 0}}',
        '{"ph":"B","pid":1,"tid":1,"ts":5000.022,"cat":"recompute","name":"recompute"}',
        '{"ph":"E","pid":1,"tid":1,"ts":6000.023}',
        '{"ph":"E","pid":1,"tid":1,"ts":10000.023}',
    ]


def test_no_memory_no_counters():
    assert read_trace(chrome_trace([TracedStep.of(small(has_memory=False), memory_limit_bytes=300)])).counters == {}


@pytest.mark.parametrize(
    ("family", "splits", "name"), [("zbv", 1, r"[FBIW]\d chunk [01]"), ("f-then-b", 3, r"[FB]\d part [012]")]
)
def test_names_have_chunk_and_part_where_there_are_several(family: str, splits: int, name: str):
    chunks = 2 if family == "zbv" else 1
    schedule = make_schedule(family, num_ranks=2, num_chunks=chunks, num_microbatches=2, sequence_splits=splits)
    trace = read_trace(chrome_trace([TracedStep.of(equal_stages(schedule, forward_ns=3, backward_ns=6))]))
    assert len(work(trace)) == schedule.num_actions
    assert all(re.fullmatch(name, each.name) for each in work(trace))
