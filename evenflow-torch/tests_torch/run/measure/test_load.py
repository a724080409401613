"""The load of a machine is the share of time in which threads wait for a processor."""

import shutil
from pathlib import Path

import pytest

from evenflow_torch.run.measure import load as module
from evenflow_torch.run.measure.load import Load, waited_ns
from tests.clocks import SetClock


@pytest.fixture
def threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "_THREADS", tmp_path / "task")
    monkeypatch.setattr(module, "perf_counter_ns", SetClock(step=1000))
    return tmp_path / "task"


def write(threads: Path, **waited: int) -> None:
    """Let there be these threads and no others."""
    shutil.rmtree(threads, ignore_errors=True)
    for name, of_thread in waited.items():
        (threads / name).mkdir(parents=True)
        (threads / name / "schedstat").write_text(f"123456 {of_thread} 7\n", encoding="ascii")


def test_only_watched_time_counts_of_all_threads(threads: Path) -> None:
    load = Load()
    assert load.share is None, "nothing was watched"
    write(threads, a=500, b=10)
    with load.watched():
        write(threads, a=750, b=15, new=5)
    write(threads, a=5000, b=10**6)
    with load.watched():
        write(threads, a=5450)  # the other has ended
    assert load.share == pytest.approx((250 + 5 + 5 + 450) / 2000)


def test_many_threads_wait_for_all_of_the_time_at_most(threads: Path) -> None:
    load = Load()
    write(threads, a=0, b=0)
    with load.watched():
        write(threads, a=900, b=900)
    assert load.share == 1.0


def test_a_system_that_does_not_tell(threads: Path) -> None:
    load = Load()
    write(threads, a=1)
    with load.watched():
        shutil.rmtree(threads)
    assert load.share is None
    write(threads, a=1)
    (threads / "a" / "schedstat").write_text("odd", encoding="ascii")
    assert waited_ns() == {}


@pytest.mark.skipif(not waited_ns(), reason="the system does not tell")
def test_threads_wait_longer_and_longer() -> None:
    first, second = waited_ns(), waited_ns()
    assert all(0 <= first[thread] <= second[thread] for thread in first.keys() & second.keys())
