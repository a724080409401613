"""The encoder of images through the commands: counted, spread, frozen, or refused with a reason."""

import json
from typing import Any

import pytest

from tests.cli.verbs.planned import planned_file

SIZES: dict[str, Any] = {
    "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 6, "num_attention_heads": 4,
    "num_key_value_heads": 4, "vocab_size": 1000,
}  # fmt: skip
VISION: dict[str, Any] = {
    "depth": 8, "hidden_size": 128, "intermediate_size": 512, "num_heads": 4, "out_hidden_size": 256,
    "deepstack_visual_indexes": [1, 5],
}  # fmt: skip
CONFIG: dict[str, Any] = {
    "model_type": "qwen3_vl", "text_config": {**SIZES, "model_type": "qwen3_vl_text"}, "vision_config": VISION
}  # fmt: skip
TRAINED = ("--accelerator", "h100", "--microbatches", 8, "--seq", 4096, "--time-limit", 10)
IMAGES = ("--images", 4, "--image-size", 512)
"""Of 32 x 32 patches and 256 tokens each."""


@pytest.fixture
def model(folder):
    (folder / "model.json").write_text(json.dumps(CONFIG))
    return "model.json"


def planned(evenflow, folder, model, *options):
    return planned_file(evenflow, folder, model, "--ranks", 2, *TRAINED, *options)


def test_without_images_the_encoder_is_left_out_with_a_note(evenflow, folder, model):
    plan, result = planned(evenflow, folder, model)
    assert sum(plan["layers"][0]) == 6
    assert "the encoder of images is left out; --images N counts it for N images of a sequence" in result.stderr


def test_spread_it_is_shared_by_the_first_stages(evenflow, folder, model):
    first, told = planned(evenflow, folder, model, *IMAGES)
    assert "8 blocks encode 4 images of 512 x 512 pixels: 1,024 patches each, 1,024 tokens" in told.stderr
    spread, _ = planned(evenflow, folder, model, *IMAGES, "--encoder", "spread")
    assert sum(first["layers"][0]) == 6
    assert "encoder_layers" not in first
    assert sum(spread["layers"][0]) == 6 + 8 + 1
    assert spread["encoder_layers"] == 9
    assert spread["status"] == first["status"] == "optimal"
    assert spread["makespan_ms"] < first["makespan_ms"]
    assert spread["communication"]["bytes_per_s"] > 0
    entries = spread["network"]["layers_description"]
    assert entries[1]["encoder"] is True
    patches = 2 * 4 * 1024 * 128
    assert [entry["boundary_bytes"] for entry in entries[:2]] == [patches, patches]
    assert entries[2]["boundary_bytes"] == patches + 2 * 1024 * 256, "what the tap behind block 1 gives goes along"


def test_a_prediction_writes_it_and_says_how_to_plan_it(evenflow, folder, model):
    asked = ("--accelerator", "h100", "--pipeline", 2, "--global-batch", 8, "--seq", 4096, "--freeze-encoder")
    result = evenflow("predict", "--model", model, *asked, *IMAGES, "--encoder", "spread", "-o", "layers.json")
    assert result.exit_code == 0, result.stderr
    entries = json.loads((folder / "layers.json").read_text())["layers_description"]
    assert [entry.get("frozen", False) for entry in entries[1:4]] == [True, True, True]
    command = next(line for line in result.stdout.splitlines() if line.startswith("evenflow plan layers.json"))
    assert "--p2p-bandwidth" in command
    again = evenflow(*command.split()[1:], "--json", "again.json")
    assert again.exit_code == 0, again.stderr
    spread, _ = planned(evenflow, folder, model, *IMAGES, "--encoder", "spread", "--freeze-encoder")
    found = json.loads((folder / "again.json").read_text())
    assert found["makespan_ms"] == pytest.approx(spread["makespan_ms"], rel=1e-5)
    assert found["encoder_layers"] == 9
    assert not any(map(any, spread["recompute"]["full"])), "what is frozen has nothing to compute again"


def test_no_framework_cuts_it(evenflow, folder, model):
    result = evenflow(
        "plan", model, "--ranks", 2, *TRAINED, *IMAGES, "--encoder", "spread", "--target", "megatron"
    )  # fmt: skip
    assert result.exit_code == 2
    message = "encoder_layers must be 0 for Megatron-LM, which has encoders in its first stage, got 9"
    assert message in result.stderr
    plan, _ = planned(evenflow, folder, model, *IMAGES, "--encoder", "spread")
    exported = evenflow("export", "plan.json", "--to", "megatron")
    assert exported.exit_code == 2
    assert message in exported.stderr
    (folder / "bare.json").write_text(json.dumps({key: plan[key] for key in plan if key != "network"}))
    exported = evenflow("export", "bare.json", "--to", "megatron")
    assert exported.exit_code == 2
    assert message in exported.stderr
    planned(evenflow, folder, model, *IMAGES)
    assert evenflow("export", "plan.json", "--to", "megatron").exit_code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--image-size", 512), "--image-size must come with --images, got 512"),
        (("--freeze-encoder",), "--freeze-encoder must come with --images or --audio-clips"),
        (("--recompute-encoder",), "--recompute-encoder must come with --images or --audio-clips"),
        (("--encoder", "spread"), "--encoder must come with --images or --audio-clips, got 'spread'"),
        (("--images", 4), "--image-size must be given: the configuration says no size of images; add it, a multiple"),
        (("--images", 4, "--image-size", 500), "must be a multiple of 32 pixels"),
        (
            ("--images", 99, "--image-size", 512),
            "--seq must be at least the 25,344 tokens of its images and sounds, got 4096",
        ),
        (
            (*IMAGES, "--freeze-encoder", "--recompute-encoder"),
            "--recompute-encoder must not be given beside --freeze-encoder",
        ),
        (
            (*IMAGES, "--encoder", "spread", "--recompute-encoder"),
            "--recompute-encoder must not be given with --encoder spread, where the plan chooses",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(evenflow, model, options, message):
    result = evenflow("plan", model, "--ranks", 2, *TRAINED, *options)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "paligemma"}, "the model has no encoder of images that is read, got 4; leave it out; read are"),
        ({"vision_config": {**VISION, "depth": "many"}}, "vision_config.depth must be an integer from 1 to"),
        ({"vision_config": {**VISION, "num_heads": 3}}, "vision_config.num_heads must divide the hidden size (128)"),
    ],
)
def test_an_encoder_that_is_not_understood_is_refused_only_with_images(evenflow, folder, changes, message):
    (folder / "odd.json").write_text(json.dumps({**CONFIG, **changes}))
    plain = evenflow("plan", "odd.json", "--ranks", 2, *TRAINED)
    assert plain.exit_code == 0, plain.stderr
    assert "the parts for images and sound are left out" in plain.stderr
    result = evenflow("plan", "odd.json", "--ranks", 2, *TRAINED, *IMAGES)
    assert result.exit_code == 2
    assert message in result.stderr


def test_apart_it_runs_before_and_behind_the_pipeline(evenflow, folder, model):
    first, _ = planned(evenflow, folder, model, *IMAGES)
    apart, told = planned(evenflow, folder, model, *IMAGES, "--encoder", "apart")
    assert sum(apart["layers"][0]) == 6
    assert apart["makespan_ms"] < first["makespan_ms"]
    encoders = apart["encoders"]
    assert encoders["step_ms"] == pytest.approx(apart["makespan_ms"] + encoders["before_ms"] + encoders["behind_ms"])
    assert f"encoders, on all ranks, take {encoders['before_ms']:,.3f} ms before the pipeline and" in told.stdout
    assert f"behind it: a step of {encoders['step_ms']:,.3f} ms\n" in told.stdout
    assert apart["network"]["stage_const_mem"] > first["network"]["stage_const_mem"]
    for options, message in (
        (("--target", "megatron"), "--encoder must not be apart for a framework: all have the encoder in their"),
        (
            ("--recompute-encoder",),
            "--recompute-encoder must not be given with --encoder apart, which computes it",
        ),
    ):
        result = evenflow("plan", model, "--ranks", 2, *TRAINED, *IMAGES, "--encoder", "apart", *options)
        assert result.exit_code == 2
        assert message in result.stderr
    alone = evenflow("plan", model, "--ranks", 2, *TRAINED, "--encoder", "apart")
    assert "--encoder must come with --images or --audio-clips, got 'apart'" in alone.stderr
    sizes = ("--accelerator", "h100", "--gpus", 2, "--pipeline", 2, "--global-batch", 8, "--seq", 4096)
    written = evenflow("predict", "--model", model, *sizes, *IMAGES, "--encoder", "apart", "-o", "layers.json")
    assert written.exit_code == 0, written.stderr
    work = json.loads((folder / "layers.json").read_text())["encoder_work"]
    assert work == apart["network"]["encoder_work"]
    assert not work["in_bubbles"]
    exported = evenflow("export", "plan.json", "--to", "megatron")
    assert exported.exit_code == 2
    assert "encoder_work must not be there for Megatron-LM, which has encoders in its first stage" in exported.stderr


def test_in_bubbles_it_takes_less_of_a_step(evenflow, folder, model):
    apart, _ = planned(evenflow, folder, model, *IMAGES, "--encoder", "apart")
    inside, told = planned(evenflow, folder, model, *IMAGES, "--encoder", "bubbles")
    assert inside["layers"] == apart["layers"]
    assert inside["network"]["stage_const_mem"] > apart["network"]["stage_const_mem"], "a part at work keeps something"
    encoders = inside["encoders"]
    assert encoders["step_ms"] < apart["encoders"]["step_ms"]
    assert encoders["forwards_in_bubbles"] > 0
    assert f"{encoders['forwards_in_bubbles']:,} of {encoders['parts']:,} forwards of a part and" in told.stdout
    assert " for the decoder alone" in told.stdout
    again = evenflow("simulate", "plan.json")
    assert again.exit_code == 0, again.stderr
    for text in (told.stdout, again.stdout):
        assert "next: for a framework, plan with the encoder in the first stage" in text
    assert f"a step of {encoders['step_ms']:,.3f} ms" in again.stdout
    frozen, _ = planned(evenflow, folder, model, *IMAGES, "--encoder", "bubbles", "--freeze-encoder")
    assert frozen["encoders"]["step_ms"] < encoders["step_ms"]


BESIDE: dict[str, Any] = {
    "model_type": "mllama",
    "text_config": {**SIZES, "model_type": "mllama_text_model", "cross_attention_layers": [1, 4]},
    "vision_config": {
        "hidden_size": 128, "attention_heads": 4, "num_hidden_layers": 2, "num_global_layers": 1,
        "intermediate_size": 256, "image_size": 112, "max_num_tiles": 2,
    },
}  # fmt: skip


def test_images_beside_the_sequence_must_be_told_and_go_from_stage_to_stage(evenflow, folder):
    (folder / "beside.json").write_text(json.dumps(BESIDE))
    sizes = ("--ranks", 2, *TRAINED)
    asked = evenflow("plan", "beside.json", *sizes)
    assert asked.exit_code == 2
    assert (
        "--images must be given: some layers of the model see images beside the sequence; say how many" in asked.stderr
    )
    plan, told = planned(evenflow, folder, "beside.json", "--images", 3)
    assert "3 blocks encode 3 images: 390 tokens beside the sequence" in told.stderr
    names = [entry["name"] for entry in plan["network"]["layers_description"]]
    assert sum("images" in name for name in names) == 2
    for where in ("spread", "apart"):
        other, _ = planned(evenflow, folder, "beside.json", "--images", 3, "--encoder", where)
        assert other["status"] == "optimal"
    larger = evenflow("plan", "beside.json", *sizes, "--images", 3, "--image-size", 224)
    assert larger.exit_code == 2
    assert "--image-size must be 112: images, or the tiles of each, are made this large, got 224" in larger.stderr
