"""`evenflow run --elastic`: a training goes on with fewer ranks, and with more, as it would have gone on with all."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import evenflow
from evenflow.errors import InputError, RunError
from evenflow.export.results.json_text import format_object
from evenflow.export.results.outcome_fields import outcome_fields
from evenflow.profiles.plan_fields import network_fields
from evenflow.profiles.plan_file import parse_plan_file
from evenflow.units import MEGABYTE
from tests.networks import plain_network
from tests_torch.run.warm_ranks import start_warm
from tests_torch.run.warm_scripts import LONG_SECONDS, run_script
from tests_torch.verbs.run.run_plans import written
from tests_torch.verbs.run.test_run_data import EXACT, SMALL, lines_of, run

SCRIPT = "import sys\nfrom evenflow.cli.main import main\nmain(sys.argv[1:], standalone_mode=False)\n"


def plan_text(num_ranks: int, *, memory_limit_bytes: int = 100_000 * MEGABYTE) -> str:
    outcome = evenflow.plan(
        plain_network(num_layers=5), num_ranks=num_ranks, num_microbatches=3, memory_limit_bytes=memory_limit_bytes
    )
    assert outcome.plan is not None
    assert outcome.simulation is not None
    fields = outcome_fields(outcome, outcome.plan.sizes, schedule=outcome.plan.schedule)
    return format_object(fields | network_fields(outcome.simulation))


def for_processes(text: str, num_processes: int, folder: Path, **changes: Any) -> str:
    from evenflow_torch.verbs.run.elastic import plan_for_processes

    options = {"model": "llama-tiny", "data_parallel": 1, "folder": folder, "is_first": True} | changes
    return plan_for_processes(text, "plan.json", num_processes=num_processes, **options)


def test_another_number_of_ranks_has_the_best_plan_for_it(tmp_path: Path) -> None:
    text = plan_text(3)
    assert for_processes(text, 3, tmp_path) == text
    assert for_processes(text, 6, tmp_path, data_parallel=2) == text
    assert not list(tmp_path.iterdir())
    for num_ranks in (2, 1, 4, 6):  # the last has a rank without layers
        again = parse_plan_file(for_processes(text, num_ranks, tmp_path), place="again")
        wanted = parse_plan_file(plan_text(num_ranks), place="wanted")
        assert (again.plan, again.network, again.memory_limit_bytes) == (
            wanted.plan,
            wanted.network,
            wanted.memory_limit_bytes,
        )


def test_a_plan_that_leaves_a_rank_without_layers_is_made_again_too(tmp_path: Path) -> None:
    text = plan_text(6)
    assert 0 in parse_plan_file(text, place="before").plan.layers[0]
    for num_ranks in (3, 5):
        again = parse_plan_file(for_processes(text, num_ranks, tmp_path), place="again")
        assert again.plan == parse_plan_file(plan_text(num_ranks), place="wanted").plan


def test_one_process_plans_for_all_and_only_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = plan_text(3)
    first = for_processes(text, 2, tmp_path)
    monkeypatch.setattr("evenflow_torch.verbs.run.elastic.replan_for", None)
    assert for_processes(text, 2, tmp_path) == first
    assert for_processes(text, 2, tmp_path, is_first=False) == first
    monkeypatch.setattr("evenflow_torch.verbs.run.elastic._WAIT_SECONDS", 0.0)
    with pytest.raises(RunError, match="has written no plan for 4 ranks"):
        for_processes(text, 4, tmp_path, is_first=False)


def test_what_cannot_be_planned_again_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="multiple of --data-parallel 2"):
        for_processes(plan_text(3), 5, tmp_path, data_parallel=2)
    with pytest.raises(InputError, match="hold the model"):
        for_processes(written(tmp_path / "plan.json").read_text(encoding="utf-8"), 3, tmp_path)
    with pytest.raises(RunError, match="no plan for one rank is known that fits"):
        for_processes(plan_text(3, memory_limit_bytes=250 * MEGABYTE), 1, tmp_path)


def test_checkpoints_have_a_place(tmp_path: Path) -> None:
    result = run(written(tmp_path / "plan.json"), *EXACT, "--elastic")
    assert result.exit_code == 2
    assert "--elastic must come with --save" in " ".join(result.stderr.split())


@pytest.mark.processes
def test_a_training_goes_on_with_other_numbers_of_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_warm(monkeypatch)
    plan = tmp_path / "plan.json"
    plan.write_text(plan_text(3), encoding="utf-8")
    (tmp_path / "main.py").write_text(SCRIPT, encoding="utf-8")
    metrics, saved = tmp_path / "m.jsonl", tmp_path / "saved"
    whole = run(plan, *EXACT, "--steps", 8, "--metrics", tmp_path / "whole.jsonl")
    assert whole.exit_code == 0, whole.output
    job = [plan, *EXACT, "--save", saved, "--elastic", "--metrics", metrics]
    begun = run(*job, "--steps", 4)
    assert begun.exit_code == 0, begun.output
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "test")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    said = run_script(tmp_path, "main.py", "run", *map(str, job), "--steps", "8", processes=2)
    assert said.count("step: predicted") == 1
    losses = [[line["loss"] for line in lines_of(path)] for path in (tmp_path / "whole.jsonl", metrics)]
    assert [line["step"] for line in lines_of(metrics)] == list(range(1, 9))
    assert losses[1] == pytest.approx(losses[0], rel=1e-11)


@pytest.mark.slow
def test_under_torchrun_the_rest_goes_on_where_a_machine_is_lost(tmp_path: Path) -> None:
    """Two launchers of one process each, as on two machines, of which one is killed with all that it started."""
    (tmp_path / "plan.json").write_text(plan_text(2), encoding="utf-8")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "1:2", "--nproc-per-node", "1"]
    command += ["--max-restarts", "3", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}"]
    command += ["--rdzv-conf", "last_call_timeout=10", "-m", "evenflow", "run", "plan.json", *SMALL, "--elastic"]
    command += ["--save", "saved", "--save-every", "10", "--steps", "150", "--metrics", "m.jsonl"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    machines = []
    try:
        for _machine in range(2):
            with (tmp_path / f"machine-{len(machines)}").open("wb") as log:
                own = {"stdout": log, "stderr": log, "start_new_session": True}
                machines.append(subprocess.Popen(command, cwd=tmp_path, env=environment, **own))
            time.sleep(3)  # the first one has the store
        survivor, lost = machines
        while not (tmp_path / "saved" / "step-00000010" / ".metadata").exists():
            assert survivor.poll() is None, (tmp_path / "machine-0").read_text(encoding="utf-8")
            time.sleep(0.1)
        for process in started_by(lost.pid):
            os.kill(process, signal.SIGKILL)
        assert survivor.wait(timeout=LONG_SECONDS) == 0, (tmp_path / "machine-0").read_text(encoding="utf-8")
    finally:
        for machine in machines:
            for process in started_by(machine.pid):
                os.kill(process, signal.SIGKILL)
            machine.wait()
    said = (tmp_path / "machine-0").read_text(encoding="utf-8")
    assert "planning for one rank instead of 2" in said
    assert {line["step"] for line in lines_of(tmp_path / "m.jsonl")} == set(range(1, 151))


def started_by(process: int) -> list[int]:
    """Return a process and all that it has started."""
    answer = subprocess.run(["pgrep", "-P", str(process)], capture_output=True, text=True, check=False)
    alive = [process] if Path(f"/proc/{process}").exists() else []
    return alive + [later for own in answer.stdout.split() for later in started_by(int(own))]
