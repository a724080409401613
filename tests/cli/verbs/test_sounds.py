"""The encoder of sound through the commands, alone and beside one of images: as that of images, by the same options."""

import json
from typing import Any

import pytest

from tests.cli.verbs.planned import planned_file
from tests.cli.verbs.test_images import SIZES, TRAINED, VISION

AUDIO: dict[str, Any] = {
    "d_model": 128, "encoder_layers": 6, "encoder_attention_heads": 4, "encoder_ffn_dim": 512, "output_dim": 256,
}  # fmt: skip
HEARS: dict[str, Any] = {
    "model_type": "qwen2_audio", "text_config": {**SIZES, "model_type": "qwen2"}, "audio_config": AUDIO
}  # fmt: skip
SEES_AND_HEARS: dict[str, Any] = {
    "model_type": "qwen3_omni_moe",
    "thinker_config": {
        "model_type": "qwen3_omni_moe_thinker", "audio_config": AUDIO, "vision_config": VISION,
        "text_config": {
            **SIZES, "model_type": "qwen3_omni_moe_text", "num_experts": 4, "num_experts_per_tok": 2,
            "moe_intermediate_size": 128,
        },
    },
    "talker_config": {"hidden_size": 99},
}  # fmt: skip
CLIPS = ("--audio-clips", 2, "--audio-seconds", 20)
"""Of 1,000 frames and 500 tokens each for Qwen2-Audio; of 260 of both for Qwen3-Omni."""


@pytest.fixture
def model(folder):
    (folder / "model.json").write_text(json.dumps(HEARS))
    return "model.json"


@pytest.fixture
def both(folder):
    (folder / "both.json").write_text(json.dumps(SEES_AND_HEARS))
    return "both.json"


def planned(evenflow, folder, model, *options):
    return planned_file(evenflow, folder, model, "--ranks", 2, *TRAINED, *options)


def test_without_clips_the_encoder_is_left_out_with_a_note(evenflow, folder, model):
    plan, result = planned(evenflow, folder, model)
    assert sum(plan["layers"][0]) == 6
    assert "the encoder of sound is left out; --audio-clips N counts it for N clips of a sequence" in result.stderr
    assert "images" not in result.stderr


def test_spread_it_is_shared_by_the_first_stages(evenflow, folder, model):
    first, told = planned(evenflow, folder, model, *CLIPS, "--no-empty")
    assert "6 blocks encode 2 clips of 20 s: 3,000 frames, 1,000 tokens of a sequence" in told.stderr
    spread, _ = planned(evenflow, folder, model, *CLIPS, "--encoder", "spread", "--no-empty")
    assert sum(spread["layers"][0]) == 6 + 6 + 1
    assert spread["encoder_layers"] == 7
    assert spread["makespan_ms"] < first["makespan_ms"]
    entries = spread["network"]["layers_description"]
    assert [entry["encoder"] for entry in entries[1:3]] == [True, True]
    assert entries[1]["name"].startswith("audio")
    assert entries[1]["boundary_bytes"] == 2 * 3000 * 128, "silence is encoded too"
    frozen, _ = planned(evenflow, folder, model, *CLIPS, "--encoder", "spread", "--freeze-encoder")
    assert frozen["makespan_ms"] < spread["makespan_ms"]


def test_by_itself_a_clip_is_as_long_as_the_encoder_takes(evenflow, folder, model):
    _, told = planned(evenflow, folder, model, "--audio-clips", 1)
    assert "6 blocks encode a clip of 30 s: 1,500 frames, 750 tokens of a sequence" in told.stderr


def test_images_and_sounds_together(evenflow, folder, both):
    images = ("--images", 1, "--image-size", 512)
    plans = {}
    for name, options in {"neither": (), "images": images, "sounds": CLIPS, "both": (*images, *CLIPS)}.items():
        plans[name], told = planned(evenflow, folder, both, *options, *(("--encoder", "spread") if options else ()))
        assert ("the encoder of images is left out" in told.stderr) == (name in ("neither", "sounds"))
        assert ("the encoder of sound is left out" in told.stderr) == (name in ("neither", "images"))
        assert "the part that speaks is left out (talker_config)" in told.stderr
        assert "the parts for images and sound are left out" not in told.stderr
    assert "6 blocks encode 2 clips of 20 s: 520 frames, 520 tokens of a sequence" in told.stderr
    assert [plans[name].get("encoder_layers", 0) for name in plans] == [0, 9, 7, 15]
    entries = plans["both"]["network"]["layers_description"]
    patches, frames, tapped = 2 * 1024 * 128, 2 * 520 * 128, 2 * 256 * 256
    assert [entry["boundary_bytes"] for entry in entries[:3]] == [patches + frames] * 2 + [patches + frames + tapped]
    apart, told = planned(evenflow, folder, both, *images, *CLIPS, "--encoder", "apart")
    assert "encoders, on all ranks, take " in told.stdout
    assert sum(apart["layers"][0]) == 6


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("model", ("--audio-seconds", 5), "--audio-seconds must come with --audio-clips, got 5"),
        ("model", ("--images", 1), "the model has no encoder of images that is read, got 1; leave it out; read are"),
        (
            "model",
            ("--audio-clips", 1, "--audio-seconds", 31),
            "--audio-seconds must be at most 30: the encoder takes no longer clip, got 31; use 30",
        ),
        ("model", ("--audio-clips", 9), "--seq must be at least the 6,750 tokens of its images and sounds, got 4096"),
        ("both", ("--audio-clips", 1), "--audio-seconds must be given: the encoder takes clips of any length"),
        (
            "both",
            ("--images", 4, "--image-size", 1024, "--audio-clips", 1, "--audio-seconds", 2),
            "--seq must be at least the 4,122 tokens of its images and sounds, got 4096",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(evenflow, model, both, name, options, message):
    result = evenflow("plan", {"model": model, "both": both}[name], "--ranks", 2, *TRAINED, *options)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "glmasr"}, "the model has no encoder of sound that is read, got 1; leave it out; read are"),
        ({"audio_config": {**AUDIO, "encoder_layers": "many"}}, "audio_config.encoder_layers must be an integer from"),
    ],
)
def test_an_encoder_that_is_not_understood_is_refused_only_with_clips(evenflow, folder, changes, message):
    (folder / "odd.json").write_text(json.dumps({**HEARS, **changes}))
    plain = evenflow("plan", "odd.json", "--ranks", 2, *TRAINED)
    assert plain.exit_code == 0, plain.stderr
    assert "the parts for images and sound are left out" in plain.stderr
    result = evenflow("plan", "odd.json", "--ranks", 2, *TRAINED, "--audio-clips", 1)
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_prediction_counts_it_in_the_first_stage(evenflow, folder, model):
    asked = ("--accelerator", "h100", "--pipeline", 2, "--global-batch", 8, "--seq", 4096)
    plain = evenflow("predict", "--model", model, *asked, "--json", "plain.json")
    heard = evenflow("predict", "--model", model, *asked, *CLIPS, "--json", "heard.json")
    assert (plain.exit_code, heard.exit_code) == (0, 0), heard.stderr
    assert "6 blocks encode 2 clips of 20 s: 3,000 frames, 1,000 tokens" in " ".join(heard.stdout.split())
    steps = [json.loads((folder / name).read_text())["step_ms"] for name in ("plain.json", "heard.json")]
    assert steps[0] < steps[1]
