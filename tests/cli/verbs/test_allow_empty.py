"""``--allow-empty`` and ``--no-empty`` in every verb that makes or looks for plans: fewer layers than cells."""

import json

import pytest

SIZES = ("--ranks", 5, "--microbatches", 5)
MODEL = ("--hidden", 1024, "--layers", 3, "--heads", 8, "--vocab", 32000, "--accelerator", "h100", "--seq", 1024)
CONFIG = {
    "model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 3, "num_attention_heads": 8,
    "intermediate_size": 4096, "vocab_size": 32000,
}  # fmt: skip


def layers_of(path):
    return json.loads(path.read_text())["layers"]


@pytest.mark.parametrize(
    "asked",
    [
        ("simulate", "tiny.json", *SIZES),
        ("plan", "tiny.json", *SIZES, "--schedule", "1f1b"),
        ("simulate", "config.json", *SIZES, "--accelerator", "h100"),
        ("plan", "config.json", *SIZES, "--accelerator", "h100", "--schedule", "1f1b"),
        ("plan", "config.json", *SIZES, "--accelerator", "h100", "--schedule", "1f1b", "--target", "megatron"),
    ],
    ids=lambda asked: f"{asked[0]} {asked[1]}" if isinstance(asked, tuple) else "",
)
def test_fewer_layers_than_cells_are_dealt_where_cells_may_be_empty(folder, evenflow, asked):
    (folder / "config.json").write_text(json.dumps(CONFIG))
    refused = evenflow(*asked, "--no-empty", "--json", "out.json")
    assert refused.exit_code == 2
    assert " 5" in refused.stderr
    for word in ((), ("--allow-empty",)):
        result = evenflow(*asked, *word, "--json", "out.json", "--overwrite")
        assert result.exit_code == 0, result.stderr
        assert 0 in layers_of(folder / "out.json")[0]


def test_naive_plans_of_a_comparison_have_empty_cells_too(folder, evenflow):
    result = evenflow("compare", "tiny.json", *SIZES, "--json", "out.json")
    assert result.exit_code == 0, result.stderr
    written = json.loads((folder / "out.json").read_text())
    assert written["naive_no_recomp"]["layers"] == [[1, 1, 1, 1, 0]]
    assert 0 in written["recommended"]["layers"][0]


def test_a_prediction_names_the_command_that_plans_it(folder, evenflow):
    asked = ("predict", *MODEL, "--pipeline", 4, "--global-batch", 8, "-o", "layers.json", "--json", "out.json")
    refused = evenflow(*asked, "--no-empty")
    assert refused.exit_code == 2
    assert refused.stderr.endswith("got 4; use 3\n")
    result = evenflow(*asked)
    assert result.exit_code == 0, result.stderr
    assert "3 layers do not divide by 4: ranks have 1,1,1,0" in " ".join(result.stdout.split())
    line = next(line for line in result.stdout.splitlines() if line.startswith("evenflow plan layers.json"))
    planned = evenflow(*line.split()[1:])
    assert planned.exit_code == 0, planned.stderr


def test_layers_of_ranks_may_be_none(evenflow):
    asked = ("predict", *MODEL, "--pipeline", 2, "--global-batch", 8, "--layers-per-rank", "3,0")
    refused = evenflow(*asked, "--no-empty")
    assert refused.exit_code == 2
    assert "must hold at least one layer, got 0; do not forbid empty cells" in refused.stderr
    assert evenflow(*asked).exit_code == 0


def test_a_tuning_looks_for_them_and_its_plan_can_be_planned_again(folder, evenflow):
    asked = ("tune", *MODEL, "--gpus", 4, "--global-batch", 8, "--fix", "pipeline=4,tensor=1", "--time-limit", 20)
    refused = evenflow(*asked, "--no-empty")
    assert refused.exit_code == 2
    assert "must be at most the 3 layers, got 4; use fewer ranks" in refused.stderr
    result = evenflow(*asked, "--json", "out.json")
    assert result.exit_code == 0, result.stderr
    assert "cells may hold no layer" in result.stdout
    assert "with a layer in every cell" not in result.stdout
    written = json.loads((folder / "out.json").read_text())
    assert written["space"]["allow_empty"] is True
    assert 0 in [count for row in written["layers"] for count in row]
    again = evenflow("plan", "out.json", "--time-limit", 5)
    assert again.exit_code == 0, again.stderr


def test_a_tuning_for_a_framework_without_empty_cells_refuses_them(evenflow):
    asked = ("tune", *MODEL, "--gpus", 4, "--global-batch", 8, "--target", "paddle")
    result = evenflow(*asked, "--allow-empty")
    assert result.exit_code == 2
    assert "empty cells must not be allowed for Paddle, which does not run them everywhere" in result.stderr
    planned = evenflow(*asked, "--fix", "pipeline=2", "--time-limit", 5)
    assert planned.exit_code == 0, planned.stderr
    assert "no configuration of this space with a layer in every cell is faster" in " ".join(planned.stdout.split())


def test_what_a_plan_file_says_is_not_forbidden_beside_it(folder, evenflow):
    assert evenflow("plan", "tiny.json", *SIZES, "--json", "plan.json").exit_code == 0
    refused = evenflow("simulate", "tiny.json", "plan.json", "--no-empty")
    assert refused.exit_code == 2
    assert "--allow-empty must not be given beside a plan file" in refused.stderr


@pytest.mark.parametrize("verb", ["plan", "predict", "compare", "simulate", "tune", "export", "apply"])
def test_every_verb_that_makes_plans_has_the_option(verb, evenflow):
    assert "--allow-empty / --no-empty" in evenflow(verb, "--help").stdout


def test_a_comparison_with_a_framework_without_empty_cells_refuses_them(folder, evenflow):
    (folder / "mine.yaml").write_text(
        "model: {num_hidden_layers: 4}\nparallelism:\n  pipeline_parallel: 2\n"
        "  pipeline_parallel_layers_per_stage: ['0-1', '2-3']\n  pipeline_parallel_schedule: 1f1b\n"
    )
    asked = ("compare", "tiny.json", "--microbatches", 4, "--baseline", "mine.yaml", "--time-limit", 2)
    compared = evenflow(*asked)
    assert compared.exit_code == 0, compared.stderr
    refused = evenflow(*asked, "--allow-empty")
    assert refused.exit_code == 2
    assert "empty cells must not be allowed for MindFormers PyNative, where every stage has a layer" in refused.stderr
