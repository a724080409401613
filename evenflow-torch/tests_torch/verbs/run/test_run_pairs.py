"""Forwards that a plan has beside backwards, on real processes: one after the other, and said so."""

import json
from pathlib import Path

import pytest

from tests_torch.run.warm_ranks import typed
from tests_torch.verbs.run.run_plans import written

pytestmark = pytest.mark.processes


def test_pairs_run_one_after_the_other(tmp_path: Path) -> None:
    written(tmp_path / "plan.json", schedule="interleaved-overlap", microbatches=4, recompute={})
    run = ("run", "plan.json", "--model", "llama-tiny", "--steps", "3", "--seq", "16", "--dtype", "fp64", "--verify")
    done = typed(tmp_path, *run, "--json", "run.json", "--timeline", "steps.json")
    assert done.exit_code == 0, done.stderr
    assert "run one after the other" in done.stderr
    assert json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))["verification"]["agrees"]
    orders = json.loads((tmp_path / "steps.json").read_text(encoding="utf-8"))
    assert "OVERLAP" not in json.dumps(orders)
