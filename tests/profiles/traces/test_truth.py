"""Every format, written from known times, gives these times back to the nanosecond."""

import re
import tempfile
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.cli.text.trace_text import trace_text
from evenflow.export.results.trace_fields import trace_fields
from evenflow.model import Halves, PassHalves
from evenflow.profiles.traces import BlockTime, LayerNames, TraceTimes, read_traces
from evenflow.profiles.traces.trace_network import network_of_traces
from tests.profiles.traces import builders
from tests.profiles.traces.builders import Case, HostRun, Truth, cases
from tests.thoroughness import examples

HEAD, BODY, TAIL = ("LlamaEmbedding",), ("LLamaDecodeLayer",), ("lm_head-Linear", "LlamaRMSNorm")


def read(folder: Path, case: Case) -> TraceTimes:
    names = LayerNames(head=HEAD, body=BODY, tail=TAIL)
    return read_traces(folder, num_microbatches=case.num_microbatches, names=names)


def check(times: TraceTimes, case: Case, truth: dict[str, Truth], *, has_backward: bool = True) -> None:
    """Body: mean over layers. Head and tail: sum over their names."""
    counted = case.counted()
    (body,) = times.bodies
    for phase in ("forward", "backward"):
        layers = [truth[name].mean(phase, counted) for name in case.layers]
        found = {"forward": body.forward_ns, "backward": body.backward_ns}[phase]
        if phase == "backward" and not has_backward:
            assert found is None
            assert times.tail is None or times.tail.backward_ns is None
            continue
        assert found == round(sum(layers, Fraction()) / len(layers))
        check_sum(times.tail, case.tail, phase, {name: truth[name].mean(phase, counted) for name in case.tail})
    assert set(body.scopes) == {name for name in body.scopes if "LLamaDecodeLayer" in name}
    assert len(body.scopes) == len(case.layers)


def check_sum(block: BlockTime | None, parts: list[str], phase: str, means: dict[str, Fraction]) -> None:
    if not parts:
        assert block is None
        return
    assert block is not None
    assert getattr(block, f"{phase}_ns") == round(sum(means.values(), Fraction()))


CLOCKS = {"text": 1, "number": 1, "double": 2_000}
"""How a file has its starts, and the least time of a layer: longer than what a double of 16 digits rounds."""


def with_clock(text: str, clock: str) -> str:
    """A file of events whose starts are text as numbers, to every digit or as `json.dump` writes a double."""
    if clock == "text":
        return text
    starts = re.compile('"ts": "([0-9.]+)"')
    return starts.sub(lambda start: f'"ts": {start[1] if clock == "number" else float(start[1])}', text)


@pytest.mark.parametrize("clock", CLOCKS)
@settings(max_examples=examples(40))
@given(case=cases())
def test_scope_rows_of_mindspore(clock: str, case: Case):
    events, truth = builders.mindspore(case, least_ns=CLOCKS[clock])
    case.durations.shuffle(events)  # the profiler writes them in no order of time
    with tempfile.TemporaryDirectory() as folder:
        file = builders.write(Path(folder) / "trace_view0.json", in_marker_order(events))
        file.write_text(with_clock(file.read_text(), clock))
        times = read(Path(folder), case)
    check(times, case, truth)
    # A step begins with the first layer's first operator: the first embedding comes before, in the step before.
    head = {
        name: truth[name].mean("forward", [(step if mb else step + 1, mb) for step, mb in case.counted()])
        for name in case.head
    }
    check_sum(times.head, case.head, "forward", head)


def in_marker_order(events: list[dict[str, object]]) -> list[dict[str, object]]:
    """The device's operators in order of time, as they are; the first layer's first operator marks the steps."""
    operators = sorted((event for event in events if "MatMul-op" in str(event["name"])), key=lambda e: str(e["ts"]))
    return [*operators, *(event for event in events if "MatMul-op" not in str(event["name"]))]


HOST_FORMATS = ("kineto", "torch_npu", "nsight", "nsight by text id")


def write_host_run(folder: Path, run: HostRun, form: str) -> None:
    if form == "kineto":
        builders.write(folder / "rank0.pt.trace.json", builders.kineto(run), kineto=True)
    elif form == "torch_npu":
        builders.write(folder / "trace_view.json", builders.torch_npu(run))
    else:
        builders.nsight(folder / "rank0.sqlite", [run], by_text_id=form.endswith("id"))


@pytest.mark.parametrize("form", HOST_FORMATS)
@settings(max_examples=examples(12))
@given(case=cases(fewest_layers=1), recompute=st.booleans())
def test_kernels_launched_in_ranges_of_the_host(form: str, case: Case, recompute: bool):
    run = builders.host_run(case, recompute=recompute)
    with tempfile.TemporaryDirectory() as folder:
        write_host_run(Path(folder), run, form)
        times = read(Path(folder), case)
    check(times, case, run.truth)
    head = {name: run.truth[name].mean("forward", case.counted()) for name in case.head}
    check_sum(times.head, case.head, "forward", head)
    assert any("recompute" in note for note in times.notes) == recompute


@pytest.mark.parametrize("form", HOST_FORMATS)
def test_exchanges_of_tokens_and_the_work_between_them(form: str, tmp_path: Path):
    """The last step alone counts, whose two microbatches take 5 and 6 times as long as here."""
    run = builders.exchanging_run(
        forward=[(100, False), (30, True), (200, False), (50, True), (10, False)],
        backward=[(60, True), (400, False), (20, True), (210, False)],
    )
    write_host_run(tmp_path, run, form)
    times = read_traces(tmp_path, num_microbatches=2, names=LayerNames(body=("LlamaDecodeLayer",)))
    (body,) = times.bodies
    assert (body.forward_ns, body.backward_ns) == (390 * 11 // 2, 690 * 11 // 2)
    assert body.halves == Halves(
        forward=PassHalves(dispatch_ns=165, mlp_ns=1100, combine_ns=275),
        backward=PassHalves(dispatch_ns=110, mlp_ns=2200, combine_ns=330),
    )
    network = network_of_traces(times, (4,), name="traced")
    assert network.exchanges_tokens
    assert "dispatch  experts  combine" in trace_text(times, num_microbatches=2)
    (fields,) = trace_fields(times, layer_counts=(4,), num_microbatches=2)["bodies"]
    assert fields["halves_ms"]["backward"] == {"dispatch": 0.00011, "mlp": 0.0022, "combine": 0.00033}


@pytest.mark.parametrize("form", HOST_FORMATS)
@settings(max_examples=examples(6))
@given(case=cases(fewest_layers=1))
def test_without_links_the_backward_is_unknown(form: str, case: Case):
    run = builders.host_run(case)
    run.nodes = [(name, start, end, None) for name, start, end, _ in run.nodes]
    with tempfile.TemporaryDirectory() as folder:
        write_host_run(Path(folder), run, form)
        times = read(Path(folder), case)
    check(times, case, run.truth, has_backward=False)


@settings(max_examples=examples(6))
@given(st.lists(cases(fewest_layers=1), min_size=2, max_size=2))
def test_processes_of_one_report_are_stages(both: list[Case]):
    both[1].num_microbatches = both[0].num_microbatches
    runs = [builders.host_run(case) for case in both]
    with tempfile.TemporaryDirectory() as folder:
        builders.nsight(Path(folder) / "node.sqlite", runs)
        times = read(Path(folder), both[0])
    assert [file.num_layers for file in times.files] == [len(case.layers) for case in both]
    samples = [
        run.truth[name].mean("forward", [(step, mb) for mb in range(case.num_microbatches)])
        for case, run in zip(both, runs, strict=True)
        for name in case.layers
        for step in sorted({step for step, _ in case.counted()})
    ]
    assert times.bodies[0].forward_ns == round(sum(samples, Fraction()) / len(samples))
    assert times.bodies[0].forward_spread.minimum_ns == round(min(samples))
    assert times.bodies[0].forward_spread.maximum_ns == round(max(samples))
