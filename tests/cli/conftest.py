"""A solver that answers at once, a model small enough to check by hand, and the commands run in this process."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from evenflow import solve
from evenflow.baselines.even_plan import even_plan
from evenflow.cli.main import main
from evenflow.model import FULL, NONE, Plan, Request
from evenflow.simulate import simulate
from evenflow.solve import Infeasibility, Neighbours, Outcome, Progress, ProgressCallback, Status

TINY = {
    "name": "tiny",
    "layers_description": [
        {
            "name": "Layer", "type": "BODY", "nb_layer": 4, "time": 1.0,
            "memory_parameter": 100, "memory_activation": 10, "memory_recompute": 1,
        }
    ],
}  # fmt: skip
"""Four layers: forward 1 ms, backward 2 ms, full recompute 1 ms more; 100 MB, 10 MB live or 1 MB."""

Evenflow = Callable[..., Result]


def even_outcome(
    request: Request,
    *,
    schedule: str,
    time_limit_s: float = 1.0,
    progress: ProgressCallback | None = None,
    known: Sequence[Plan] = (),
) -> Outcome:
    """Layers dealt evenly and nothing recomputed, or everything where that does not fit."""
    smallest: list[tuple[int, int]] = []
    for kind in (NONE, FULL):
        plan = even_plan(
            request.network, request.sizes, schedule=schedule, recompute=kind, allow_empty=request.allow_empty
        )
        simulation = simulate(request.network, plan, communication=request.communication)
        peaks = simulation.peak_memory_bytes
        if simulation.fits(request.memory_limit_bytes):
            if progress is not None:
                progress(Progress(seconds=3.0, phase="proving", makespan_ns=simulation.makespan_ns, lower_bound_ns=1))
            return Outcome(
                status=Status.FEASIBLE,
                simulation=simulation,
                lower_bound_ns=simulation.makespan_ns * 3 // 4,
                memory_limit_bytes=request.memory_limit_bytes,
                solve_seconds=1.5,
            )
        smallest.append((max(peaks), peaks.index(max(peaks))))
    needed, rank = min(smallest)
    return Outcome(
        status=Status.INFEASIBLE,
        simulation=None,
        lower_bound_ns=0,
        memory_limit_bytes=request.memory_limit_bytes,
        solve_seconds=1.5,
        infeasibility=Infeasibility(
            rank=rank, smallest_limit_bytes=needed, proven=True, advice=("more ranks would help",)
        ),
    )


@pytest.fixture
def fake_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands get `even_outcome` instead of a solve, and no neighbours."""
    monkeypatch.setattr(solve, "solve", even_outcome)
    monkeypatch.setattr(solve, "find_neighbours", lambda *_, **__: Neighbours())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to stand in, with ``tiny.json``."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.json").write_text(json.dumps(TINY))
    return tmp_path


@pytest.fixture
def evenflow() -> Evenflow:
    """Runs ``evenflow ARGUMENTS``."""

    def run(*arguments: object, stdin: str | None = None) -> Result:
        return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)

    return run


@pytest.fixture
def balance(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs ``run_pipeline_balance.py ARGUMENTS`` in this process: status, stdout, stderr."""
    from evenflow.cli.sapp.command import main as sapp

    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            sapp([str(argument) for argument in arguments])
        output = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return end.value.code, output.out, output.err

    return run


def files_in(folder: Path) -> set[str]:
    """Every file below `folder`, as relative paths."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def targets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The frameworks `example` and `unchecked`, beside MindFormers, in the place of all others."""
    from evenflow.targets import registry
    from evenflow.targets.frameworks.mindformers.target import TARGET
    from tests.cli.verbs.targets import EXAMPLE, UNCHECKED

    found = {target.name: target for target in (EXAMPLE, TARGET, UNCHECKED)}
    monkeypatch.setattr(registry, "all_targets", lambda: found)
