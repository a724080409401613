"""Ranks on different accelerators, through the commands."""

import json
from typing import Any

import pytest

from evenflow.profiles.layer_file import parse_layer_file
from tests.cli.verbs.planned import planned_file

CONFIG: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 12,
    "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 8000,
}  # fmt: skip
TRAINED = ("--ranks", 4, "--microbatches", 16, "--seq", 4096, "--time-limit", 10)


@pytest.fixture
def model(folder):
    (folder / "model.json").write_text(json.dumps(CONFIG))
    return "model.json"


def planned(evenflow, folder, model, *options):
    return planned_file(evenflow, folder, model, *TRAINED, *options)


def network_of(plan):
    return parse_layer_file(json.dumps(plan["network"]), place="plan.json")


def test_slower_ranks_get_less_and_have_memory_of_their_own(evenflow, folder, model):
    alike, _ = planned(evenflow, folder, model, "--accelerator", "h100")
    mixed, told = planned(evenflow, folder, model, "--accelerator", "h100", "--rank-accelerator", "2-3:a100-40")
    network = network_of(mixed)
    speeds = [rank.speed for rank in network.ranks]
    assert speeds[:2] == [1, 1]
    assert 0.3 < speeds[2] == speeds[3] < 0.6
    assert [rank.reserved_bytes > 30 * 2**30 for rank in network.ranks] == [False, False, True, True]
    assert mixed["status"] == alike["status"] == "optimal"
    assert mixed["makespan_ms"] > alike["makespan_ms"]
    assert min(mixed["layers"][0][:2]) > max(mixed["layers"][0][2:])
    assert "note: ranks 2, 3 on a100-40 do 0." in told.stderr
    assert network.layers == network_of(alike).layers, "the times are those of the fastest"


def test_the_fastest_may_be_one_of_the_others(evenflow, folder, model):
    one, _ = planned(evenflow, folder, model, "--accelerator", "h100", "--rank-accelerator", "0:a100")
    other, _ = planned(evenflow, folder, model, "--accelerator", "a100", "--rank-accelerator", "1-3:h100")
    every, _ = planned(evenflow, folder, model, "--accelerator", "a100", "--rank-accelerator", "a100,h100,h100,h100")
    assert one["makespan_ms"] == other["makespan_ms"] == every["makespan_ms"]
    assert network_of(one).ranks == network_of(other).ranks == network_of(every).ranks


def test_ranks_of_one_kind_are_as_without(evenflow, folder, model):
    alike, _ = planned(evenflow, folder, model, "--accelerator", "h100")
    same, told = planned(evenflow, folder, model, "--accelerator", "h100", "--rank-accelerator", "0:h100")
    assert same["network"] == alike["network"]
    assert "note: ranks" not in told.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--rank-accelerator", "4:a100"), "--rank-accelerator must be of ranks from 0 to 3, got '4:a100'"),
        (("--rank-accelerator", "1:nothing"), "must be one of"),
        (
            ("--rank-accelerator", "1:a100", "--rank-speed", "2:0.9"),
            "--rank-speed must not be given with --rank-accelerator, which has the speed of each rank",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(evenflow, model, options, message):
    result = evenflow("plan", model, *TRAINED, "--accelerator", "h100", *options)
    assert result.exit_code == 2
    assert message in result.stderr


def test_simulation_and_layer_files(evenflow, folder, model):
    mixed = ("--accelerator", "h100", "--rank-accelerator", "2-3:a100")
    even = evenflow("simulate", model, *TRAINED[:6], *mixed, "--layers", "3,3,3,3", "--json", "even.json")
    assert even.exit_code == 0, even.stderr
    plan, _ = planned(evenflow, folder, model, *mixed)
    assert json.loads((folder / "even.json").read_text())["makespan_ms"] > plan["makespan_ms"]
    (folder / "layers.json").write_text(json.dumps(plan["network"]))
    result = evenflow("plan", "layers.json", "--ranks", 4, "--microbatches", 16, "--rank-accelerator", "2:a100")
    assert result.exit_code == 2
    assert "--rank-accelerator" in result.stderr
