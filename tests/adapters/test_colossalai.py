"""Nodes for ColossalAI's zero-bubble scheduler, run here as if every transfer waited for its other side."""

import json
import sys
from collections import namedtuple
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.adapters.colossalai import ScheduledAction, nodes_of, scheduler_nodes
from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.schedule import Op, make_schedule
from evenflow.targets.frameworks.colossalai.target import TARGET

ON_A_V = [name for name in TARGET.abilities("0.5.0").schedules if name not in ("1f1b", "interleaved")]


def run(ranks: list[list[ScheduledAction]]) -> list[tuple[int, ScheduledAction]]:
    """The computing nodes in an order in which they can run, where a send and its receive happen at once."""
    places = [0] * len(ranks)
    done = []
    moves = True
    while moves:
        moves = False
        for rank, nodes in enumerate(ranks):
            while places[rank] < len(nodes) and nodes[places[rank]].type in "FBW":
                done.append((rank, nodes[places[rank]]))
                places[rank] += 1
                moves = True
            if places[rank] == len(nodes):
                continue
            node = nodes[places[rank]]
            side, _, direction = node.type.partition("_")
            up = (node.chunk == 0) == (direction == "FORWARD")  # towards the last rank
            other = rank + (1 if up == (side == "SEND") else -1)
            mirrored = node._replace(type=f"{'RECV' if side == 'SEND' else 'SEND'}_{direction}", stage=other)
            if places[other] < len(ranks[other]) and ranks[other][places[other]] == mirrored:
                places[rank] += 1
                places[other] += 1
                moves = True
    assert places == list(map(len, ranks)), "ranks wait for each other"
    return done


@given(st.sampled_from(ON_A_V), st.integers(2, 5), st.integers(2, 3))
def test_ranks_do_not_wait_in_a_circle_and_every_input_is_there(name: str, num_ranks: int, rounds: int):
    schedule = make_schedule(name, num_ranks=num_ranks, num_chunks=2, num_microbatches=num_ranks * rounds)
    stage_of = {(int(schedule.stage_chunks[stage]), rank): stage for stage, rank in enumerate(schedule.stage_ranks)}
    seen: set[tuple[str, int, int]] = set()
    done = run(nodes_of(schedule))
    for rank, node in done:
        stage = stage_of[node.chunk, rank]
        needed = {
            "F": {("F", stage - 1, node.minibatch)} if stage else set(),
            "B": {("F", stage, node.minibatch), ("B", stage + 1, node.minibatch)},
            "W": {("B", stage, node.minibatch)},
        }[node.type]
        assert {each for each in needed if each[1] < schedule.num_stages} <= seen
        seen.add((node.type, stage, node.minibatch))
    assert len(done) == len(seen) == 3 * schedule.num_stages * schedule.num_microbatches


@pytest.mark.parametrize("name", ON_A_V)
def test_a_rank_runs_its_own_order(name: str):
    schedule = make_schedule(name, num_ranks=3, num_chunks=2, num_microbatches=6)
    names = {Op.F: "F", Op.B: "BW", Op.I: "B", Op.W: "W"}
    for rank, nodes in enumerate(nodes_of(schedule)):
        assert [(node.type, node.chunk, node.minibatch) for node in nodes if node.type in "FBW"] == [
            (op, int(schedule.stage_chunks[action.stage]), action.microbatch)
            for action in schedule.order(rank)
            for op in names[action.op]
        ]


def test_the_nodes_of_a_plan_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module = ModuleType("v_schedule")
    module.__dict__["ScheduledNode"] = namedtuple("ScheduledNode", ScheduledAction._fields)
    monkeypatch.setitem(sys.modules, "colossalai.pipeline.schedule.v_schedule", module)
    for parent in ("colossalai", "colossalai.pipeline", "colossalai.pipeline.schedule"):
        monkeypatch.setitem(sys.modules, parent, ModuleType(parent))
    fields = {"ranks": 2, "chunks": 2, "microbatches": 2, "schedule": "zbv", "sequence_splits": 1}
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(fields | {"layers": [[1, 1], [1, 1]], "recompute": {}}))
    first = scheduler_nodes(path)[0][0]
    assert (type(first).__name__, first.type, first.chunk, first.stage, first.minibatch) == (
        "ScheduledNode",
        "F",
        0,
        0,
        0,
    )
    with pytest.raises(InputError, match=r"schedule must be one of 1f1b-v, .*zbv"):
        scheduler_nodes(Plan(schedule="1f1b", num_microbatches=2, layers=((1, 1),)))
