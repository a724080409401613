"""``--refine auto``: free shardings beside the degrees of a row, and what it cannot be asked of."""

import json

import pytest

from tests.networks import SMALL_LLAMA

ASKED = (
    "tune", "--model", "small.json", "--accelerator", "h100", "--gpus", 2, "--seq", 64, "--global-batch", 2,
    "--max-chunks", 1, "--schedules", "1f1b", "--max-microbatch", 2, "--time-limit", 60,
)  # fmt: skip
REFINED = (*ASKED, "--refine", "auto")


@pytest.fixture(autouse=True)
def model(folder):
    (folder / "small.json").write_text(json.dumps(SMALL_LLAMA | {"num_hidden_layers": 2}))


def test_the_three_plans_are_side_by_side(evenflow, folder):
    result = evenflow(*REFINED, "--json", "tune.json")
    assert result.exit_code == 0, result.output
    found = json.loads((folder / "tune.json").read_text())
    told = found["two_level"]
    assert told["reason"] is None
    steps = [told[name]["step_ms"] for name in ("degrees", "best_degrees", "free")]
    assert steps[0] >= steps[1] * (1 - 1e-9)
    assert told["could_gain"] == pytest.approx(max(0, 1 - steps[2] / steps[1]))
    assert told["step_lower_bound_ms"] <= steps[2] * (1 + 1e-9)
    assert told["could_gain"] <= told["could_gain_at_most"] + 1e-9
    row = found["ranked"][told["rank"] - 1]
    assert told["degrees"]["microbatch"] == row["microbatch"] * row["data"]
    assert told["degrees"]["microbatch"] * told["degrees"]["microbatches"] == 2
    for step in steps:
        assert f"{step:,.1f}" in result.stdout
    command = result.stdout[result.stdout.index("evenflow auto --model") :].splitlines()[0]
    assert command == "evenflow auto --model small.json --mesh 1x2 --accelerator h100 --seq 64 --global-batch 2"
    assert evenflow(*command.split()[1:]).exit_code == 0


def test_degrees_that_it_does_not_have(evenflow, folder):
    result = evenflow(*REFINED, "--gpus", 8, "--fix", "tensor=2,context=4,pipeline=1", "--json", "tune.json")
    assert result.exit_code == 0, result.output
    told = json.loads((folder / "tune.json").read_text())["two_level"]
    assert told["rank"] is told["degrees"] is told["free"] is told["could_gain"] is None
    assert "--refine auto has no answer: the degrees of no row are among the plain plans" in result.stdout


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--precision", "fp8"), "--refine must come with --precision bf16, fp16 or fp32, got 'auto'"),
        (("--recompute", "full"), "--refine must come without --recompute: `evenflow auto` has all kinds"),
        (("--gpus", 12, "--gpus-per-node", 8, "--global-batch", 12), "--refine must come with whole nodes in --gpus"),
        (("--refine", "all"), "--refine"),
    ],
)
def test_what_it_cannot_be_asked_of(evenflow, more, message):
    result = evenflow(*REFINED, *more)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_plain_numbers_have_no_operators(evenflow):
    numbers = ("--hidden", 64, "--layers", 4, "--heads", 4, "--vocab", 320)
    result = evenflow("tune", *numbers, *ASKED[3:], "--refine", "auto")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--refine must come with --model and a file" in result.stderr


def test_without_time_the_ranking_is_there(evenflow, monkeypatch):
    from evenflow_torch.verbs import refine as module

    def late(*_arguments, **_keywords):
        raise TimeoutError

    monkeypatch.setattr(module._Planner, "planned", late)
    result = evenflow(*REFINED)
    assert result.exit_code == 0
    assert "no configuration of this space" in result.stdout
    assert "--refine auto has no answer: the time was over before all were planned" in result.stdout
