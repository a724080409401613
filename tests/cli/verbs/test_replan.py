import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evenflow.cli.shared.files.written_mark import MARK
from evenflow.model import Plan, RankTraits
from evenflow.profiles.plan_file import parse_plan_file
from evenflow.simulate import Simulation, Timeline, simulate
from evenflow.solve import plan
from evenflow.solve.replan import measured_speeds, moves_between, ranks_without_work, replan
from tests.networks import plain_network


@pytest.fixture
def running(folder: Path, evenflow) -> Path:
    """A plan of eight layers on two ranks."""
    layers = {
        "name": "eight",
        "layers_description": [
            {"name": "b", "type": "BODY", "nb_layer": 8, "time": 1, "memory_parameter": 100, "memory_activation": 10}
        ],
    }
    (folder / "eight.json").write_text(json.dumps(layers))
    result = evenflow("plan", "eight.json", "--ranks", 2, "--microbatches", 8, "--memory", "1GB", "--json", "plan.json")
    assert result.exit_code == 0, result.stderr
    return folder / "plan.json"


def test_layers_leave_a_slow_rank(running: Path, evenflow) -> None:
    result = evenflow("replan", "plan.json", "--rank-speed", "1:0.5", "--move-bandwidth", "1GBps", "--json", "new.json")
    assert result.exit_code == 0, result.stderr
    written = json.loads(Path("new.json").read_text())
    assert written["rank_speed"] == [1.0, 0.5]
    assert written["makespan_ms"] < written["running_makespan_ms"]
    assert written["moves"] == [{"layers": [4, 5], "from_rank": 1, "to_rank": 0, "state_mb": 200.0}]
    assert written["moving_ms"] == pytest.approx(200 * 2**20 / 1e6, abs=1e-3)
    assert "2 layers change their rank, with 200.0 MB" in result.stdout
    assert "moving takes 209.715 ms, which" in result.stdout
    # What was written is a plan file that knows the ranks.
    again = evenflow("simulate", "new.json")
    assert f"one step takes {written['makespan_ms']:,.3f} ms" in again.stdout


def test_a_rank_too_slow_for_any_layer_may_be_left_without(running: Path, evenflow) -> None:
    freed = evenflow("replan", "plan.json", "--rank-speed", "1:0.01", "--json", "new.json")
    assert freed.exit_code == 0, freed.stderr
    assert json.loads(Path("new.json").read_text())["layers"] == [[8, 0]]
    assert "no plan of this schedule is shorter" in freed.stdout
    filled = evenflow("replan", "plan.json", "--rank-speed", "1:0.01", "--no-empty", "--json", "filled.json")
    assert json.loads(Path("filled.json").read_text())["layers"] == [[7, 1]]
    assert "no plan of this schedule with a layer in every cell is shorter" in filled.stdout


def test_a_measured_step_says_which_rank_is_slow(running: Path, evenflow) -> None:
    planned = parse_plan_file(running.read_text(), place="plan.json")
    slow = replace(planned.network, ranks=(RankTraits(), RankTraits(speed=0.5)))
    timeline = simulate(slow, planned.plan).timeline
    schedule = timeline.schedule
    rows = [[] for _ in range(2)]
    for index in range(schedule.num_actions):
        stage, unit = int(schedule.stages[index]), int(schedule.units[index])
        name = f"{stage}{'FBIW'[int(schedule.ops[index])]}{unit}"
        start, end = (int(times[index]) / 1e6 for times in (timeline.start_ns, timeline.end_ns))
        rows[schedule.stage_ranks[stage]].append([name, start, end])
    written = {"schedule": "1f1b", "predicted": rows, "measured": rows}
    Path("timeline.json").write_text(json.dumps(written))
    result = evenflow("replan", "plan.json", "timeline.json", "--json", "new.json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(Path("new.json").read_text())["rank_speed"] == [1.0, 0.5]
    assert "how long moving takes is not known" in result.stdout
    assert "counts as equal): 1 0.5" in result.stdout


def test_a_plan_that_stays_best_is_kept(running: Path, evenflow) -> None:
    result = evenflow("replan", "plan.json", "--rank-speed", "1:0.99", "--json", "new.json")
    assert result.exit_code == 0, result.stderr
    assert "keep the plan: on these ranks it takes" in result.stdout
    assert json.loads(Path("new.json").read_text())["moves"] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "must come with a measured step, or with --rank-speed"),
        (("eight.json",), "must be the timeline of a run, or a measured step"),
        (("none.json",), "no such file"),
        (("--rank-speed", "7:0.5"), "must be of ranks from 0 to 1"),
        (("--rank-speed", "1:0.5", "--move-bandwidth", "fast"), "--move-bandwidth"),
    ],
)
def test_what_cannot_be_asked(running: Path, evenflow, arguments: tuple[str, ...], message: str) -> None:
    result = evenflow("replan", "plan.json", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_layer_file_is_no_plan(running: Path, evenflow) -> None:
    assert evenflow("replan", "eight.json", "--rank-speed", "1:0.5").exit_code == 2


def test_less_memory_is_a_reason_too(running: Path, evenflow) -> None:
    result = evenflow("replan", "plan.json", "--rank-memory", "0:400MB", "--json", "new.json")
    assert result.exit_code == 0, result.stderr
    written = json.loads(Path("new.json").read_text())
    assert written["moves"][0]["from_rank"] == 0
    assert MARK in written


def test_moves_are_what_changes_its_rank() -> None:
    network = plain_network(num_layers=8)
    first = plan(network, num_ranks=2, num_microbatches=4).simulation
    second = plan(network, num_ranks=2, num_microbatches=4, layers=((2, 6),)).simulation
    assert moves_between(first, first) == ()
    (move,) = moves_between(first, second)
    start = first.plan.layers[0][0]
    assert (move.layers, move.source, move.target) == (range(2, start), 0, 1)
    assert move.state_bytes == (start - 2) * network.layers[0].parameter_bytes


def test_speeds_of_a_step_as_planned_are_equal() -> None:
    simulation = plan(plain_network(num_layers=8), num_ranks=2, num_microbatches=4).simulation
    assert measured_speeds(simulation, simulation.timeline) == (1.0, 1.0)


def without_layers_on_rank_1(work_ns: int) -> tuple[Simulation, Timeline]:
    """A plan whose middle rank has no layers, and a step of it in which rank 2 takes twice as long."""
    layers = ((4, 0, 4),)
    running = Plan(schedule="1f1b", num_microbatches=4, layers=layers)
    simulation = simulate(plain_network(num_layers=8), running)
    timeline = simulation.timeline
    schedule = timeline.schedule
    ranks = np.array(schedule.stage_ranks)[schedule.stages]
    took = timeline.end_ns - timeline.start_ns
    longer = np.where(ranks == 2, 2 * took, np.where(ranks == 1, work_ns, took))
    return simulation, replace(timeline, end_ns=timeline.start_ns + longer)


@pytest.mark.parametrize("work_ns", [0, 5, 10**9])
def test_a_rank_without_layers_tells_no_speed(work_ns: int) -> None:
    simulation, measured = without_layers_on_rank_1(work_ns)
    assert ranks_without_work(simulation) == (1,)
    assert measured_speeds(simulation, measured) == (1.0, 1.0, 0.5)


def test_the_new_plan_is_never_longer_than_the_running_one() -> None:
    running = plan(plain_network(num_layers=9), num_ranks=3, num_microbatches=6).simulation
    for speed in (0.3, 0.7, 0.95):
        ranks = (RankTraits(), RankTraits(speed=speed), RankTraits())
        answer = replan(running, ranks, memory_limit_bytes=None, time_limit_s=10.0)
        assert answer.outcome.makespan_ns <= answer.before.makespan_ns
