"""The group of processes that runs cases: what a signal ended runs once more, what raised does not."""

import os
import signal
from functools import partial
from pathlib import Path

import pytest

from tests_torch.run.cases import Answer, run_group

pytestmark = pytest.mark.processes


def dies_at_first(place: Path, rank: int) -> Answer:
    if rank == 1 and not place.exists():
        place.touch()
        os.kill(os.getpid(), signal.SIGABRT)
    return Answer(error=0.0)


def raises(place: Path, rank: int) -> Answer:
    with place.open("a") as runs:
        runs.write(str(rank))
    raise ValueError("a fault")


def test_a_group_that_a_signal_ended_runs_once_more(tmp_path: Path) -> None:
    (answers,) = run_group({"dies": partial(dies_at_first, tmp_path / "died")}, num_ranks=2).values()
    assert [answer.error for answer in answers] == [0.0, 0.0]


def test_a_case_that_raises_is_told(tmp_path: Path) -> None:
    (answers,) = run_group({"raises": partial(raises, tmp_path / "runs")}, num_ranks=2).values()
    assert any("a fault" in answer.trouble for answer in answers)
    assert len((tmp_path / "runs").read_text()) <= 2, "each rank once"
