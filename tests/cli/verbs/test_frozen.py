"""Frozen layers through the commands: a plan that counts on them says so to whoever writes it for a framework."""

import json

from tests.profiles.transformer.small_configs import SMALL_CONFIGS


def test_a_plan_that_counts_on_frozen_layers_says_what_to_freeze(folder, evenflow):
    model = json.loads((folder / "tiny.json").read_text())
    frozen = {"name": "Frozen", "type": "BODY", "nb_layer": 3, "time": 1.0, "memory_parameter": 50, "frozen": True}
    model["layers_description"].insert(0, frozen)
    (folder / "frozen.json").write_text(json.dumps(model))
    planned = evenflow("plan", "frozen.json", "--ranks", 2, "--microbatches", 4, "--json", "frozen.plan.json")
    assert planned.exit_code == 0, planned.stderr
    note = "note: the plan counts on 3 first layers that are not trained, nor the embedding: freeze them in Megatron-LM"
    exported = evenflow("export", "frozen.plan.json", "--to", "megatron")
    assert note in exported.stdout, exported.stderr
    how = ", with requires_grad_(False) for these of every stage: "
    assert f"{note} too{how}embedding, decoder.layers[layer_number <= 3]" in exported.stdout
    by_name = evenflow("export", "frozen.plan.json", "--to", "nemo-automodel")
    assert f"too{how}model.embed_tokens, model.layers.0 to model.layers.2" in by_name.stdout, by_name.stderr
    unnamed = evenflow("export", "frozen.plan.json", "--to", "torchtitan")  # its stages may count their layers anew
    assert "freeze them in torchtitan too\n" in unnamed.stdout, unnamed.stderr
    (folder / "run.sh").write_text(
        "torchrun pretrain_gpt.py --num-layers 7 --pipeline-model-parallel-size 2 --world-size 2 "
        "--micro-batch-size 1 --global-batch-size 4\n"
    )
    applied = evenflow("apply", "frozen.plan.json", "run.sh")
    assert applied.exit_code == 0, applied.stderr
    assert note in applied.stdout


def test_a_plan_that_counts_on_adapters_says_how_to_train_them_alone(folder, evenflow):
    """At once with `--target`, and later where the plan's file is written for a framework."""
    (folder / "config.json").write_text(json.dumps(SMALL_CONFIGS["llama"]))
    training = ("--seq", 512, "--accelerator", "h100", "--lora", 16)
    sizes = ("--ranks", 2, "--microbatches", 4)
    planned = evenflow("plan", "config.json", *training, *sizes, "--target", "megatron-bridge", "--json", "lora.json")
    assert planned.exit_code == 0, planned.stderr
    note = "note: the plan counts on adapters alone being trained, 16 wide, beside every product: "
    assert f"{note}peft = LoRA(dim=16) in Megatron-Bridge" in planned.stdout
    exported = evenflow("export", "lora.json", "--to", "megatron")
    assert f"{note}set them in Megatron-LM too" in exported.stdout, exported.stderr
    predicted = evenflow(
        "predict", "--model", "config.json", *training, "--pipeline", 2, "--global-batch", 4, "-o", "layers.json"
    )
    assert predicted.exit_code == 0, predicted.stderr
    assert json.loads((folder / "layers.json").read_text())["adapter_rank"] == 16
    whole = evenflow("plan", "config.json", *training[:-2], *sizes, "--target", "megatron-bridge")
    assert "adapters" not in whole.stdout
