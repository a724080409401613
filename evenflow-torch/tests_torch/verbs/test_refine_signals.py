"""A signal while free shardings are planned, to real processes: the ranking is printed and written."""

import json

import pytest

from tests.cli.verbs.tune.test_signals import STATUS, started
from tests.networks import SMALL_LLAMA
from tests_torch.verbs.test_refine import REFINED

pytestmark = pytest.mark.processes


@pytest.mark.parametrize("number", list(STATUS))
def test_free_shardings_are_not_waited_for(tmp_path, number):
    (tmp_path / "small.json").write_text(json.dumps(SMALL_LLAMA))
    command = (*REFINED, "--time-limit", 600, "--json", "tune.json")
    process = started(command, "evenflow_torch.auto.config_planner", "plan_config", tmp_path)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == STATUS[number], err
    assert "no configuration of this space" in out
    assert "--refine auto has no answer: a signal came before all were planned" in out
    assert json.loads((tmp_path / "tune.json").read_text())["two_level"]["free"] is None
