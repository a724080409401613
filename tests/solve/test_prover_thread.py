"""The prover's thread while its loops are not ready: plain code has a plan, and nobody waits for the compiler."""

import subprocess
import sys
from threading import Event

import pytest

from evenflow.model import Request, Sizes
from evenflow.solve import Status, prover_thread, race
from evenflow.solve.clock import Clock
from evenflow.solve.problem import make_problem
from evenflow.solve.race import Race, RaceSettings
from tests.networks import plain_network

ENDING = """
import threading
from evenflow.interruption import end_without, exit_with, watch
watch()
thread = threading.Thread(target=threading.Event().wait)
end_without(thread)
thread.start()
print("the answer")
exit_with(3, replaceable=())
"""


@pytest.mark.parametrize("is_compiling", [True, False])
def test_the_answer_does_not_wait_for_loops_that_are_not_ready(monkeypatch: pytest.MonkeyPatch, is_compiling: bool):
    ready = Event()

    class Unready(prover_thread.Annealing):
        def __post_init__(self) -> None:
            ready.wait()
            super().__post_init__()

    monkeypatch.setattr(prover_thread, "Annealing", Unready)
    monkeypatch.setattr(race, "is_compiling", lambda: is_compiling)
    monkeypatch.setattr(race, "compiles_now", lambda: is_compiling)
    sizes = Sizes(num_ranks=2, num_chunks=1, num_microbatches=4)
    running = Race(
        make_problem(Request(network=plain_network(), sizes=sizes), schedule="1f1b"), RaceSettings(patience_s=0.01)
    )
    phases = []
    try:
        outcome = running.run(Clock(limit_s=0.1), progress=lambda progress: phases.append(progress.phase))
        assert running.busy
        assert outcome.status is Status.FEASIBLE
        assert outcome.plan is not None
        assert any("compiling" in phase for phase in phases) is is_compiling
    finally:
        ready.set()
    # Once they are ready the next run goes on to the proof.
    assert running.run(Clock(limit_s=60)).status is Status.OPTIMAL


def test_the_proof_of_a_small_problem_waits_for_no_clock(monkeypatch: pytest.MonkeyPatch):
    """The search has tried far more moves than there are plans long before its seconds are over."""
    monkeypatch.setattr(prover_thread, "_SETTLE_SECONDS", float("inf"))
    monkeypatch.setattr(prover_thread, "_SETTLE_SHARE", 1.0)
    sizes = Sizes(num_ranks=2, num_chunks=1, num_microbatches=4)
    running = Race(make_problem(Request(network=plain_network(), sizes=sizes), schedule="1f1b"))
    assert running.run(Clock(limit_s=60)).status is Status.OPTIMAL


@pytest.mark.processes
def test_a_command_ends_without_a_thread_that_nobody_waits_for():
    answer = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, check=False, timeout=60)
    assert (answer.returncode, answer.stdout, answer.stderr) == (3, "the answer\n", "")


def test_an_answer_is_one_plan_though_the_search_goes_on(monkeypatch: pytest.MonkeyPatch):
    """A search that has not noticed its end may find a better plan while the answer is made."""
    sizes = Sizes(num_ranks=2, num_chunks=1, num_microbatches=4)
    running = Race(make_problem(Request(network=plain_network(), sizes=sizes), schedule="1f1b"))
    first = running.run(Clock(limit_s=5.0))
    standing = running._prover.standing
    assert standing.incumbent is not None
    makespan_ns, counts = standing.incumbent
    answers = iter([(makespan_ns, counts)])
    monkeypatch.setattr(
        type(standing), "incumbent", property(lambda _standing: next(answers, (makespan_ns - 1, counts)))
    )
    assert running._outcome().makespan_ns == first.makespan_ns == makespan_ns
