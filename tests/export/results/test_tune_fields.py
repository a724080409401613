"""The file of a ranking, which reads back as the plan of its first row."""

import json
from dataclasses import replace

import pytest

from evenflow.export.results.json_text import format_object
from evenflow.export.results.tune_fields import TuneSetting, tune_fields
from evenflow.predict.training import Degrees
from evenflow.predict.transformer import Experts
from evenflow.profiles.plan_file import parse_plan_file
from evenflow.units import MEGABYTE
from tests.predict.trainings import LLAMA, training
from tests.tune.rankings import candidate, ranking

SETTING = TuneSetting(rows=10, target="megatron", version="0.13", notes=("assumed",))


def written(tuned, setting=SETTING):
    return json.loads(format_object(tune_fields(tuned, setting)))


def test_the_first_row_reads_back_as_a_plan():
    tuned = ranking()
    read = parse_plan_file(format_object(tune_fields(tuned, SETTING)), place="tune.json")
    best = tuned.best
    assert read.plan == best.plan
    assert read.network == best.prediction.network
    assert abs(read.memory_limit_bytes - tuned.question.usable_bytes) <= MEGABYTE
    assert read.communication is not None
    assert replace(read.degrees.degrees, expert_tensor=None) == best.training.degrees
    assert (read.degrees.microbatch, read.degrees.global_batch, read.degrees.sequence) == (1, 16, 2048)


def test_degrees_of_experts_read_back():
    model = replace(LLAMA, experts=Experts(count=8, active=2, ffn=1024, capacity_factor=1.25))
    degrees = Degrees(tensor=2, context=2, data=2, expert=4, expert_tensor=1, context_exchange="all-to-all")
    one = candidate(training(model=model, degrees=degrees, microbatch=2), step_ms=400.0, gigabytes=12.0)
    tuned = ranking(ranked=(one,), question=replace(ranking().question, model=model))
    read = parse_plan_file(format_object(tune_fields(tuned, SETTING)), place="tune.json")
    assert read.degrees.degrees == degrees
    assert (read.degrees.microbatch, read.degrees.num_microbatches, read.degrees.expert_capacity) == (2, 4, 1.25)


def test_numbers_of_the_ranking():
    found = written(ranking())
    assert found["status"] == "feasible"
    assert (found["legal"], found["refuted"], found["solved"]) == (4, 1, 3)
    assert (found["step_ms"], found["step_lower_bound_ms"]) == (400.0, 396.0)
    assert found["step_gap"] == pytest.approx(0.01)
    assert found["excluded"] == {"tensor": 3, "microbatch": 40}
    assert found["space"]["fixed"] == {"zero": 1}
    assert found["space"]["most"]["context"] == 2
    assert (found["target"], found["target_version"], found["notes"]) == ("megatron", "0.13", ["assumed"])
    first, second, third = found["ranked"]
    assert (first["limited_by"], first["limited_ms"]) == ("bubble", 100.0)
    assert (first["rank"], first["step_ms"], first["memory"]["total_mb"], first["free_mb"]) == (
        1,
        400.0,
        12288.0,
        4096.0,
    )
    assert (second["chunks"], second["schedule"]) == (2, "interleaved")
    assert second["recompute"] == {"full": [[2, 0], [0, 0]]}
    assert [part["exposed_ms"] for part in third["time"]] == [375.0, 125.0]
    assert (third["context"], third["data"], third["zero"]) == (2, 4, 3)


def test_rows_are_as_many_as_asked_for():
    assert [row["rank"] for row in written(ranking(), replace(SETTING, rows=2))["ranked"]] == [1, 2]


@pytest.mark.parametrize(("bound_ns", "status"), [(400e6, "optimal"), (399.9999e6, "optimal"), (399e6, "feasible")])
def test_what_is_proven_is_the_status(bound_ns, status):
    assert written(ranking(lower_bound_ns=bound_ns))["status"] == status


@pytest.mark.parametrize(("bound_ns", "status"), [(float("inf"), "infeasible"), (1e6, "timeout")])
def test_without_a_row_there_is_no_plan(bound_ns, status):
    found = written(ranking(ranked=(), lower_bound_ns=bound_ns), TuneSetting(rows=10))
    assert found["status"] == status
    assert found["ranked"] == []
    assert found["step_ms"] is None
    assert found["step_lower_bound_ms"] == (None if status == "infeasible" else 1.0)
    assert "layers" not in found
    assert found["target"] is None
