"""Models of bytes: how many of them a patch has."""

import json

import pytest

from tests.profiles.transformer.small_configs import SMALL_CONFIGS

SIZES = ("--accelerator", "h100", "--ranks", 2, "--microbatches", 4, "--seq", 1024, "--time-limit", 5)


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bytes.json").write_text(json.dumps(SMALL_CONFIGS["blt"]))
    (tmp_path / "words.json").write_text(json.dumps(SMALL_CONFIGS["llama"]))
    return tmp_path


def test_bytes_of_a_patch_are_those_of_the_data_or_what_the_model_aims_at(evenflow, model):
    steps = {}
    for size in (None, 2, 4, 4.5):
        options = () if size is None else ("--bytes-per-patch", size)
        told = evenflow("plan", "bytes.json", *SIZES, *options, "--json", "plan.json")
        assert told.exit_code == 0, told.stderr
        steps[size] = json.loads((model / "plan.json").read_text())["makespan_ms"]
        of_patch = f"a patch has {size} of them on average" if size else "is taken to have 4 of them on average"
        assert of_patch in told.stderr
    assert steps[2] > steps[4] == steps[None] > steps[4.5]


def test_a_model_without_patches_refuses_their_bytes(evenflow, model):
    told = evenflow("plan", "words.json", *SIZES, "--bytes-per-patch", 4)
    assert told.exit_code == 2
    assert "--bytes-per-patch must not be given: the model does not group bytes in patches" in told.stderr
