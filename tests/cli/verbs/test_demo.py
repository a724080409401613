"""The first look: the plan of a layer file that comes with evenflow."""

import json

import pytest

from evenflow.cli.verbs.demo.demo_command import LAYERS, SIZES
from tests.paths import EXAMPLES


def test_the_layer_file_is_that_of_the_examples() -> None:
    assert LAYERS.read_bytes() == (EXAMPLES / "llama2_70b.json").read_bytes()


@pytest.mark.usefixtures("fake_solver")
def test_it_is_a_plan_of_that_file_and_says_which(folder, evenflow) -> None:
    shown, planned = evenflow("demo", "--json", "-"), evenflow("plan", LAYERS, *SIZES, "--json", "-")
    assert shown.exit_code == 0
    assert json.loads(shown.stdout) == json.loads(planned.stdout)
    assert shown.stderr.startswith(f"evenflow plan {LAYERS} --ranks 8 --chunks 2 ")


@pytest.mark.usefixtures("fake_solver")
def test_options_of_plan_go_in_the_place_of_its_own(folder, evenflow) -> None:
    result = evenflow("demo", "--ranks", 4, "--json", "plan.json")
    assert result.exit_code == 0
    assert "80 layers on 4 ranks x 2 chunks" in result.stdout
    assert (folder / "plan.json").is_file()


def test_it_ends_with_the_status_of_plan(evenflow) -> None:
    result = evenflow("demo", "--memory", "1GB", "--time-limit", 10)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "1,024 MB" in result.stderr


def test_a_wrong_option_is_refused_as_that_of_plan(evenflow) -> None:
    result = evenflow("demo", "--rank", 4)
    assert result.exit_code == 2
    assert "evenflow plan --help" in result.stderr
