"""Half blocks through the commands: planned, written for a framework that has them, priced for one that has not."""

import json
from typing import Any

import pytest

from tests.cli.verbs.planned import planned_file

CONFIG: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 9,
    "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 8000,
}  # fmt: skip
TRAINED = ("--accelerator", "h100", "--microbatches", 8, "--seq", 2048, "--time-limit", 10)
SCRIPT = (
    "torchrun pretrain_gpt.py --num-layers 9 --pipeline-model-parallel-size 2 --micro-batch-size 1 "
    "--global-batch-size 8 --decoder-first-pipeline-num-layers 5\n"
)
HYBRID = (
    "torchrun pretrain_hybrid.py --hybrid-layer-pattern '*-*-*-*-*-|*-*-*-*-' --pipeline-model-parallel-size 2 "
    "--micro-batch-size 1 --global-batch-size 8\n"
)


@pytest.fixture
def model(folder):
    (folder / "model.json").write_text(json.dumps(CONFIG))
    (folder / "train.sh").write_text(SCRIPT)
    (folder / "hybrid.sh").write_text(HYBRID)
    return "model.json"


def planned(evenflow, folder, model, *options):
    return planned_file(evenflow, folder, model, "--ranks", 2, *TRAINED, *options)


def test_a_cut_inside_a_block_is_shorter(evenflow, folder, model):
    whole, _ = planned(evenflow, folder, model)
    halves, _ = planned(evenflow, folder, model, "--half-blocks")
    assert sum(whole["layers"][0]) == 9
    assert "continuing_layers" not in whole
    assert sum(halves["layers"][0]) == 18
    assert halves["continuing_layers"] == 9
    assert whole["status"] == halves["status"] == "optimal"
    assert halves["makespan_ms"] < whole["makespan_ms"]


def test_a_framework_that_counts_half_blocks_gets_them_unasked(evenflow, folder, model):
    asked, _ = planned(evenflow, folder, model, "--chunks", 1, "--target", "megatron-hybrid", "--half-blocks")
    unasked, result = planned(evenflow, folder, model, "--chunks", 1, "--target", "megatron-hybrid")
    assert unasked["layers"] == asked["layers"]
    counts = " ".join(map(str, unasked["layers"][0]))
    assert f'--hybrid-layer-pattern "$(with_bars "$PATTERN" {counts})"' in result.stdout
    applied, _ = planned(evenflow, folder, model, "--chunks", 1, "--apply", "hybrid.sh")
    assert applied["layers"] == unasked["layers"]
    assert (folder / "hybrid.planned.sh").read_text().count("|") == 1
    compared = evenflow("compare", model, "--baseline", "hybrid.sh", *TRAINED)
    assert compared.exit_code == 0, compared.stderr
    assert "recommended: optimal" in compared.stdout


def test_one_that_has_whole_blocks_is_planned_for_in_these(evenflow, folder, model):
    whole, _ = planned(evenflow, folder, model, "--target", "megatron")
    halves, result = planned(evenflow, folder, model, "--target", "megatron", "--half-blocks")
    note = "note: Megatron-LM has no cut inside a block: 18 layers are planned as 9 whole blocks"
    assert note in result.stderr
    assert halves["layers"] == whole["layers"]
    assert "continuing_layers" not in halves
    compared = evenflow("compare", model, "--half-blocks", "--baseline", "train.sh", *TRAINED)
    assert compared.exit_code == 0, compared.stderr
    assert note in compared.stderr


def test_what_its_cuts_lose_is_said(evenflow, folder, model):
    halves, _ = planned(evenflow, folder, model, "--half-blocks")
    result = evenflow("export", "plan.json", "--to", "megatron")
    assert "Megatron-LM has no cut inside a block: " in result.stdout
    assert "% slower" in result.stdout
    assert "--num-layers 9" in result.stdout
    del halves["network"]
    (folder / "alone.json").write_text(json.dumps(halves))
    refused = evenflow("export", "alone.json", "--to", "megatron")
    assert refused.exit_code == 2
    assert "continuing_layers must be 0 for Megatron-LM, which has no cut inside a block, got 9" in refused.stderr


def test_a_prediction_writes_them_and_says_how_to_plan_them(evenflow, folder, model):
    sizes = ("--model", model, "--accelerator", "h100", "--gpus", 2, "--pipeline", 2, "--global-batch", 8)
    sizes = (*sizes, "--layers-per-rank", "5,4", "--seq", 2048)
    plain = evenflow("predict", *sizes)
    halves = evenflow("predict", *sizes, "--half-blocks", "-o", "layers.json")
    assert halves.exit_code == 0, halves.stderr
    assert halves.stdout.startswith(plain.stdout[:200]), "what is predicted is the same"
    entries = json.loads((folder / "layers.json").read_text())["layers_description"]
    block = next(entry for entry in entries if "layers" in entry)
    assert block["nb_layer"] == 9
    assert [entry.get("continues_block", False) for entry in block["layers"]] == [False, True]
    again = evenflow("plan", "layers.json", "--ranks", 2, "--microbatches", 8, "--memory", "70GB", "--json", "p.json")
    assert again.exit_code == 0, again.stderr
    assert json.loads((folder / "p.json").read_text())["continuing_layers"] == 9


def test_a_model_without_such_blocks_is_refused(evenflow, folder, model):
    parallel = {**CONFIG, "model_type": "gptj", "n_embd": 512, "n_layer": 4, "n_head": 8, "rotary_dim": 64}
    (folder / "parallel.json").write_text(json.dumps(parallel))
    result = evenflow("plan", "parallel.json", "--ranks", 2, *TRAINED, "--half-blocks")
    assert result.exit_code == 2
    assert "must have blocks of attention and then an MLP or experts, to part them" in result.stderr


def test_halves_may_be_enough_for_ranks_that_blocks_are_too_few_for(evenflow, folder, model):
    short = ("--microbatches", 12, "--seq", 2048, "--accelerator", "h100", "--time-limit", 5, "--no-empty")
    refused = evenflow("plan", model, "--ranks", 12, *short)
    assert refused.exit_code == 2
    assert "must be at least 12, one for each cell" in refused.stderr
    found = evenflow("plan", model, "--ranks", 12, *short, "--half-blocks", "--json", "plan.json")
    assert found.exit_code == 0, found.stderr
    assert min(json.loads((folder / "plan.json").read_text())["layers"][0]) >= 1
    none = evenflow("plan", model, "--ranks", 19, *short, "--half-blocks")
    assert none.exit_code == 2
    assert "must be at least 19, one for each of 19 ranks x 1 chunks, got 18" in none.stderr


def test_layers_of_one_half_are_told_of_where_a_framework_has_both(evenflow, folder):
    mixers = {
        "model_type": "mamba2", "hidden_size": 512, "num_hidden_layers": 9, "vocab_size": 8000, "state_size": 64,
        "num_heads": 16, "head_dim": 64, "n_groups": 1, "conv_kernel": 4, "expand": 2,
    }  # fmt: skip
    (folder / "mixers.json").write_text(json.dumps(mixers))
    said = "9 of the 9 layers have attention or a state alone"
    for target, is_said in (("megatron", True), ("mindspeed", True), ("megatron-hybrid", False), ("torch", False)):
        result = evenflow("plan", "mixers.json", "--ranks", 2, "--chunks", 1, *TRAINED, "--target", target)
        assert result.exit_code == 0, result.stderr
        assert (said in result.stderr) is is_said


def test_a_configuration_that_fits_nowhere_is_told_how_it_goes_on_more_devices(evenflow, folder, model):
    result = evenflow("plan", model, "--ranks", 2, *TRAINED, "--memory", "1MB")
    assert result.exit_code == 3
    assert "evenflow tune --model model.json chooses among all ways to split the training" in result.stderr
    layers = evenflow("predict", "--model", model, "--accelerator", "h100", "--gpus", 2, "--pipeline", 2,
                      "--global-batch", 8, "--seq", 2048, "-o", "layers.json")  # fmt: skip
    assert layers.exit_code == 0, layers.stderr
    of_layers = evenflow("plan", "layers.json", "--ranks", 2, "--microbatches", 8, "--memory", "1MB")
    assert of_layers.exit_code == 3
    assert "evenflow tune" not in of_layers.stderr
