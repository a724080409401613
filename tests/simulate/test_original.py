"""Makespan, peaks and bubbles against the tool whose command evenflow answers to, where that tool is right."""

import json
from typing import Any

import numpy as np
import pytest

from evenflow.schedule import default_family, make_schedule
from evenflow.simulate import StageCosts, build_graph, peak_bytes, run
from evenflow.simulate.bubbles import bubble_table
from tests.paths import GOLDEN

CASES = json.loads((GOLDEN / "original_simulator.json").read_text())["cases"]


def name_of(case: dict[str, Any]) -> str:
    memory = " less memory" if case["less_memory"] else ""
    return f"{case['ranks']}x{case['chunks']}x{case['microbatches']}{memory}"


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_agrees_with_the_original(case: dict[str, Any]):
    schedule = make_schedule(
        default_family(num_chunks=case["chunks"], less_memory=case["less_memory"]),
        num_ranks=case["ranks"],
        num_chunks=case["chunks"],
        num_microbatches=case["microbatches"],
    )
    forward, recompute, activation = (
        np.array(case[key], dtype=np.int64).reshape(-1) for key in ("forward", "recompute", "activation")
    )
    costs = StageCosts(
        num_ranks=case["ranks"],
        forward_ns=forward,
        backward_ns=2 * forward + recompute,
        weight_ns=forward,
        recompute_ns=recompute,
        activation_bytes=activation,
        until_weight_bytes=activation,
        static_bytes=np.full(case["ranks"], case["static"], dtype=np.int64),
        working_bytes=np.zeros(case["ranks"], dtype=np.int64),
    )
    graph = build_graph(schedule)
    timeline = run(graph, costs.durations)
    assert timeline.makespan_ns == case["makespan"]
    assert peak_bytes(schedule, costs).tolist() == case["peak"]
    table = bubble_table(graph, costs, timeline, None)
    for cause, fraction in case["bubble"].items():
        assert getattr(table, cause) == pytest.approx(fraction, abs=1e-4)
