import json
import re
from dataclasses import replace

import pytest

from evenflow.export.results.json_text import format_object
from evenflow.export.results.prediction_fields import NextPlan, PredictionSetting, prediction_fields
from evenflow.predict import prediction as prediction_module
from evenflow.predict.expected_error import ErrorRange
from evenflow.predict.memory import Held, RankMemory
from evenflow.predict.prediction import PartTime, predict
from evenflow.predict.training import Degrees, Sharding
from tests.paths import ROOT
from tests.predict.trainings import TOPOLOGY, training, with_memory

GIGABYTE = 2**30


def fields(**setting):
    return prediction_fields(
        predict(training(), TOPOLOGY), PredictionSetting(**{"memory_limit_bytes": GIGABYTE, **setting})
    )


def test_every_field_is_documented_and_no_other():
    page = (ROOT / "docs" / "result-schema.md").read_text(encoding="utf-8")
    section = page.partition("\n## evenflow predict\n")[2].partition("\n## ")[0]
    named = set()
    for fields_of_item in re.findall(r"^- ([^:]+):", section, re.MULTILINE):
        named |= set(re.findall(r"`([a-z_]+)`", fields_of_item))
    with_a_host_or_calibration = {"optimizer_offload", "calibration_counts", "extrapolates"}
    assert named == set(fields()) | with_a_host_or_calibration


def test_times_and_shares_are_those_of_the_prediction():
    found = predict(training(), TOPOLOGY)
    written = fields()
    assert written["step_ms"] == pytest.approx(found.step_ns / 1e6, abs=1e-6)
    assert written["pipeline_ms"] == found.simulation.makespan_ns / 1e6
    assert written["model_flop_utilisation"] == found.utilisation
    for part, one in zip(found.parts, written["time"], strict=True):
        assert one == {
            "part": part.name,
            "exposed_ms": part.exposed_ns / 1e6,
            "hidden_ms": part.hidden_ns / 1e6,
            "recomputed_ms": part.recomputed_ns / 1e6,
            "share": part.exposed_ns / found.step_ns,
        }


def test_memory_is_that_of_every_rank():
    found = predict(training(), TOPOLOGY)
    written = fields()
    assert len(written["memory"]) == 4
    for one, rank in zip(written["memory"], found.memory, strict=True):
        assert one["total_mb"] == rank.total_bytes / 2**20
        assert set(one["parts_mb"]) <= {str(held) for held in Held}
        assert sum(one["parts_mb"].values()) == pytest.approx(one["total_mb"])


@pytest.mark.parametrize(("limit", "fits"), [(0, None), (1, False), (2**50, True)])
def test_a_limit_that_is_not_known_is_null(limit, fits):
    written = fields(memory_limit_bytes=limit)
    assert written["fits"] is fits
    assert written["memory_limit_mb"] == (limit / 2**20 if limit else None)


def test_it_is_json_without_words_of_its_own():
    degrees = Degrees(tensor=2, pipeline=4, data=2, sharding=Sharding.PARAMETERS)
    found = predict(training(degrees=degrees, recompute="select"), TOPOLOGY)
    written = json.loads(format_object(prediction_fields(found, PredictionSetting(memory_limit_bytes=0))))
    assert (written["zero"], written["data"], written["recompute_modules"]) == (3, 2, ["core_attn"])
    assert written["layers"] == [[2, 2, 2, 2]]
    assert written["plan_command"] is None


def test_the_step_is_that_of_the_rank_and_not_rounded_away():
    found = replace(predict(training(), TOPOLOGY), step_ns=1.5e6)
    assert prediction_fields(found, PredictionSetting(memory_limit_bytes=0))["step_ms"] == 1.5


def test_golden(monkeypatch):
    """What programs read, with numbers that a person can check."""
    error = ErrorRange(low=-0.1, high=0.25, runs=12, sources=3, of="ampere, dense")
    monkeypatch.setattr(prediction_module, "expected_error", lambda *_: error)
    parts = (
        PartTime(name="matrix products", exposed_ns=300e6, recomputed_ns=60e6),
        PartTime(name="bubble", exposed_ns=100e6, hidden_ns=0.0),
    )
    memory = (RankMemory(parts={Held.PARAMETERS: GIGABYTE, Held.MLP: 2**29}),)
    idle_ns = (130e6, 120e6, 110e6, 100e6)
    found = with_memory(predict(training(), TOPOLOGY), memory, step_ns=400e6, parts=parts, idle_ns=idle_ns)
    setting = PredictionSetting(
        memory_limit_bytes=16 * GIGABYTE, assumed=("--zero=1",), notes=("a note",),
        next_plan=NextPlan(command="evenflow plan l.json", pipeline_ns=390_000_000),
    )  # fmt: skip
    written = json.loads(format_object(prediction_fields(found, setting)))
    assert written.pop("pipeline_ms") == found.simulation.makespan_ns / 1e6
    assert written.pop("model_tflops_per_device") == pytest.approx(11.80579, abs=1e-5)
    assert written.pop("model_flop_utilisation") == pytest.approx(0.1180579, abs=1e-7)
    assert written == {
        "name": "small", "parameters": 191382528, "accelerator": "round", "devices": 8, "devices_per_node": 8,
        "tensor": 2, "pipeline": 4, "chunks": 1, "context": 1, "data": 1, "expert": 1, "expert_tensor": None,
            "expert_capacity": None, "frozen_layers": 0, "adapter_rank": 0, "zero": 1,
        "sequence_parallel": True, "context_exchange": "ring", "global_batch": 16, "microbatch": 1, "microbatches": 16,
        "sequence": 2048, "precision": "bf16", "gradient_bytes": 4, "recompute": "none", "recompute_modules": [],
        "recompute_layers": None, "layers": [[2, 2, 2, 2]],
        "step_ms": 400.0, "step_interval_ms": [360.0, 500.0], "tokens_per_s_per_device": 10240.0,
        "time_rank": 3, "idle_ms": [130.0, 120.0, 110.0, 100.0],
        "time": [
            {"part": "matrix products", "exposed_ms": 300.0, "hidden_ms": 0.0, "recomputed_ms": 60.0, "share": 0.75},
            {"part": "bubble", "exposed_ms": 100.0, "hidden_ms": 0.0, "recomputed_ms": 0.0, "share": 0.25},
        ],
        "memory": [{"total_mb": 1536.0, "parts_mb": {"parameters": 1024.0, "activations of MLPs": 512.0}}],
        "memory_limit_mb": 16384.0, "fits": True, "fits_probability": pytest.approx(1.0),
        "smallest_change": None, "assumed": ["--zero=1"], "notes": ["a note"],
        "plan_command": "evenflow plan l.json", "plan_pipeline_ms": 390.0,
    }  # fmt: skip
