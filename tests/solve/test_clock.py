"""The clock of a run, and searches that count their work: the same answer every time, wherever the limit ends them."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenflow
from evenflow.model import LayerRun, Network
from evenflow.solve.clock import Clock, counts_work, now_s, reproducible, shown_s, spend
from tests.networks import MILLISECOND, plain_network
from tests.paths import EXAMPLES, ROOT
from tests.solve.cases import NO_SHRINKING, cases
from tests.thoroughness import examples

GIB = 2**30


@pytest.fixture
def now(monkeypatch) -> list[float]:
    moment = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: moment[0])
    return moment


def test_all_that_passes_counts_against_the_limit(now):
    clock = Clock(limit_s=10)
    now[0] += 2
    assert (clock.spent_s, clock.left_s) == (2, 8)
    now[0] += 9
    assert (clock.spent_s, clock.left_s) == (11, -1)


def test_a_clock_may_have_begun_before(now):
    assert Clock(limit_s=10, began=97.0).left_s == 7


def _uneven() -> Network:
    """A model whose layers come in many kinds, which no search of a moment proves."""
    layer = plain_network().runs[0].layer
    runs = []
    for number in range(12):
        forward_ns = layer.forward_ns + (7 * number % 12) * MILLISECOND // 3
        varied = evenflow.Layer(
            name=f"layer {number}",
            forward_ns=forward_ns,
            parameter_bytes=layer.parameter_bytes,
            modes=layer.modes,
        )
        runs.append(LayerRun(layer=varied, count=3))
    return Network(name="uneven", runs=tuple(runs))


SIZES = {"num_ranks": 4, "num_microbatches": 12, "memory_limit_bytes": 3 * GIB}
SEARCHES: dict[str, Callable[[Network], object]] = {
    "plan": lambda network: evenflow.plan(network, num_chunks=2, time_limit_s=0.3, **SIZES),
    "best": lambda network: evenflow.plan_best(network, num_chunks=(1, 2), time_limit_s=0.6, **SIZES),
    "any order": lambda network: evenflow.plan_any_order(network, split_backward=True, time_limit_s=0.6, **SIZES),
    "a framework": lambda network: evenflow.plan_for_target(
        Network(name="short", runs=network.runs[:3]), "megatron", time_limit_s=0.2, **(SIZES | {"num_ranks": 2})
    ),
    "too little memory": lambda network: evenflow.plan(
        network, **(SIZES | {"memory_limit_bytes": GIB // 2}), time_limit_s=0.3
    ),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_that_the_limit_ends_gives_the_same_answer_again(name: str) -> None:
    network = _uneven()
    answers = []
    for _again in range(2):
        with reproducible():
            answers.append(repr(SEARCHES[name](network)))
    assert answers[0] == answers[1]


@given(case=cases(time=MILLISECOND, memory=2**20, any_order=False))
@settings(max_examples=examples(9), phases=NO_SHRINKING)
def test_counted_work_proves_what_time_proves(case):
    timed = evenflow.plan(case.network, time_limit_s=20.0, **case.arguments)
    with reproducible():
        counted = evenflow.plan(case.network, time_limit_s=20.0, **case.arguments)
    assert counted.status is timed.status
    assert (counted.makespan_ns or 0) == pytest.approx(timed.makespan_ns or 0, rel=2e-6)


def test_work_is_all_that_moves_a_clock_of_work() -> None:
    assert not counts_work()
    with reproducible():
        assert counts_work()
        clock = Clock(limit_s=10.0)
        before = shown_s()
        assert shown_s() == before, "a report may look at the time as often as it likes"
        spend(4.0)
        assert clock.spent_s == pytest.approx(4.0)
        assert 5.9 < clock.left_s < 6.0
        with reproducible():
            assert now_s() < 1.0, "a clock within another begins anew"
        assert 4.0 <= clock.spent_s < 4.1
    assert not counts_work()


@given(seconds=st.floats(0.01, 3.0))
@settings(max_examples=examples(10))
def test_every_loop_that_looks_at_the_clock_ends(seconds):
    with reproducible():
        end, looks = now_s() + seconds, 0
        while now_s() < end:
            looks += 1
    assert looks < 20_000


COMMANDS = {
    "plan": ("plan", "layers.json", "--chunks", "2", "--memory", "60GB", "--schedule", "best", "--svg", "out.svg"),
    "compare": ("compare", "layers.json", "--memory", "60GB", "--output-folder", "pictures"),
    "tune": (
        *("tune", "--model", "config.json", "--accelerator", "h100", "--gpus", "16", "--global-batch", "32"),
        *("--seq", "4096", "--svg", "out.svg"),
    ),
}  # fmt: skip


@pytest.mark.processes
@pytest.mark.parametrize("name", COMMANDS)
def test_the_same_command_writes_the_same_bytes(tmp_path: Path, name: str) -> None:
    written = []
    for seed in ("1", "2"):  # of the order in which sets of texts stand
        folder = tmp_path / seed / "work"
        folder.mkdir(parents=True)
        (folder / "layers.json").write_bytes((EXAMPLES / "llama2_70b.json").read_bytes())
        (folder / "config.json").write_bytes((EXAMPLES / "configs" / "llama3_8b.json").read_bytes())
        sizes = () if name == "tune" else ("--ranks", "4", "--microbatches", "8")
        subprocess.run(
            (sys.executable, "-m", "evenflow", *COMMANDS[name], *sizes, "--json", "out.json", "--html", "out.html",
             "--time-limit", "0.5", "--reproducible"),
            cwd=folder, check=True, capture_output=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT / "src"), "EVENFLOW_LANG": "en"},
        )  # fmt: skip
        written.append({path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()})
    assert len(written[0]) >= 4
    assert written[0] == written[1]
