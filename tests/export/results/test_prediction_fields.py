import json
import re
from dataclasses import replace

import pytest

from evenflow.export.results.json_text import format_object
from evenflow.export.results.prediction_fields import PredictionSetting, prediction_fields
from evenflow.predict.memory import Held
from evenflow.predict.prediction import predict
from evenflow.predict.training import Degrees, Sharding
from tests.paths import ROOT
from tests.predict.trainings import TOPOLOGY, training

GIGABYTE = 2**30


def fields(**setting):
    return prediction_fields(
        predict(training(), TOPOLOGY), PredictionSetting(**{"memory_limit_bytes": GIGABYTE, **setting})
    )


def test_every_field_is_documented_and_no_other():
    page = (ROOT / "docs" / "result-schema.md").read_text(encoding="utf-8")
    section = page.partition("\n## evenflow predict\n")[2].partition("\n## ")[0]
    named = set()
    for cell in re.findall(r"^\|([^|]+)\|", section, re.MULTILINE):
        named |= set(re.findall(r"`([a-z_]+)`", cell))
    assert named == set(fields())


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
