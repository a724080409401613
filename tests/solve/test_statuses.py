"""How a solve ends when it cannot prove: too little memory or time, no memory data, Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from evenflow.errors import Interrupted
from evenflow.model import Network
from evenflow.solve import Progress, Status, plan, prover_thread
from evenflow.solve.start import even_start
from evenflow.units import MEGABYTE
from tests.networks import MILLISECOND, plain_network


def network(num_layers: int) -> Network:
    return plain_network(num_layers, "select", constant_bytes=5 * MEGABYTE)


def test_too_little_memory_names_rank_and_limit():
    """Two layers a rank, 1F1B: rank r keeps 4 - r microbatches, so rank 0 needs 5 + 2 * (50 + 4 * 10) MB."""
    outcome = plan(network(8), num_ranks=4, num_microbatches=8, memory_limit_bytes=150 * MEGABYTE, time_limit_s=20)
    assert outcome.status is Status.INFEASIBLE
    assert outcome.plan is outcome.makespan_ns is outcome.gap is None
    reason = outcome.infeasibility
    assert reason.proven
    # With one layer on rank 0 another holds three: 5 + 3 * (50 + 10) = 185 MB on rank 3 at best, no less.
    assert reason.smallest_limit_bytes == 185 * MEGABYTE
    assert any("8 ranks" in sentence for sentence in reason.advice)
    assert any("both" in sentence and "comm" in sentence for sentence in reason.advice)
    assert "185 MB" in outcome.summary()


def test_without_memory_data_no_limit_holds():
    bare = replace(network(8), has_memory=False)
    outcome = plan(bare, num_ranks=4, num_microbatches=8, memory_limit_bytes=1, time_limit_s=20)
    assert outcome.status is Status.OPTIMAL
    assert outcome.memory_limit_bytes is None
    assert outcome.makespan_ns == (8 + 3) * 2 * 30 * MILLISECOND


@pytest.mark.parametrize("seconds", [0.001, 0.3])
def test_a_tiny_time_limit_still_gives_a_plan_and_a_valid_bound(seconds):
    outcome = plan(network(64), num_ranks=8, num_chunks=2, num_microbatches=16, memory_limit_bytes=4_000 * MEGABYTE,
                   time_limit_s=seconds)  # fmt: skip
    assert outcome.status in (Status.FEASIBLE, Status.OPTIMAL)
    assert max(outcome.simulation.peak_memory_bytes) <= 4_000 * MEGABYTE
    assert 0 <= outcome.lower_bound_ns <= outcome.makespan_ns
    assert 0 <= outcome.gap <= 1


def test_progress_never_goes_back():
    seen = []
    plan(network(30), num_ranks=4, num_microbatches=9, memory_limit_bytes=1_200 * MEGABYTE, time_limit_s=5,
         progress=seen.append)  # fmt: skip
    assert seen
    makespans = [each.makespan_ns for each in seen if each.makespan_ns is not None]
    assert makespans == sorted(makespans, reverse=True)
    bounds = [each.lower_bound_ns for each in seen]
    assert bounds == sorted(bounds)


def test_ctrl_c_before_any_plan_is_an_error(monkeypatch):
    def slow_start(problem):
        time.sleep(0.5)
        return even_start(problem)

    def interrupt(_: Progress) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(prover_thread, "even_start", slow_start)
    with pytest.raises(Interrupted):  # where the even plan fits, that is an answer
        plan(network(8), num_ranks=2, num_microbatches=2, memory_limit_bytes=MEGABYTE, progress=interrupt)


def test_ctrl_c_with_a_plan_returns_it(monkeypatch):
    # The proof, with which the run ends, does not begin before there is a report.
    monkeypatch.setattr(prover_thread.Annealing, "has_settled", False)
    seen = []

    def interrupt_once(progress: Progress) -> None:
        seen.append(progress.makespan_ns)
        if seen[-1] is not None and seen[:-1].count(None) == len(seen) - 1:
            raise KeyboardInterrupt

    outcome = plan(network(8), num_ranks=2, num_microbatches=2, time_limit_s=20, progress=interrupt_once)
    assert any(seen)
    assert outcome.plan is not None
    assert outcome.lower_bound_ns <= outcome.makespan_ns


@pytest.mark.parametrize("by_signal", [True, False])
def test_ctrl_c_once_the_run_has_ended_loses_no_answer(monkeypatch, by_signal: bool):
    """While the last step of the search is waited for, and in the last report."""
    join, ended = prover_thread.ProverThread.join, []

    def join_and_interrupt(self, *, timeout_s: float) -> None:
        ended.append(True)
        if by_signal:
            signal.raise_signal(signal.SIGINT)
        join(self, timeout_s=timeout_s)

    def interrupt(_: Progress) -> None:
        if ended:
            if by_signal:
                signal.raise_signal(signal.SIGINT)
            raise KeyboardInterrupt

    monkeypatch.setattr(prover_thread.ProverThread, "join", join_and_interrupt)
    outcome = plan(network(8), num_ranks=2, num_microbatches=2, time_limit_s=20, progress=interrupt)
    assert ended
    assert outcome.plan is not None


@pytest.mark.processes
@pytest.mark.skipif(os.name == "nt", reason="needs SIGINT")
def test_ctrl_c_prints_the_best_plan(tmp_path: Path):
    entry = {"name": "layer", "type": "BODY", "time": 10.0, "nb_layer": 126, "memory_parameter": 50.0,
             "memory_activation": 100.0, "memory_select_rec": 73.0, "memory_recompute": 10.0}  # fmt: skip
    head = {"name": "embedding", "type": "HEAD", "time": 3.0, "nb_layer": 1, "memory_parameter": 200.0}
    (tmp_path / "large.json").write_text(json.dumps({"layers_description": [head, entry]}))
    command = [sys.executable, "-m", "evenflow", "plan", "large.json", "--ranks", "16", "--chunks", "4",
               "--microbatches", "64", "--memory", "6GB", "--time-limit", "120", "--json", "plan.json"]  # fmt: skip
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        before = []
        for line in process.stderr:
            before.append(line)
            if "best" in line:
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert process.returncode == 130, "".join(before) + err
    assert "\nstep " in out
    assert "Traceback" not in err
    written = json.loads((tmp_path / "plan.json").read_text())
    assert written["status"] in ("feasible", "optimal")
    assert sum(map(sum, written["layers"])) == 126
