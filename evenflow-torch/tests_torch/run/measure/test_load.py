"""The load of a machine is the share of time in which a thread waits for a processor."""

from pathlib import Path

import pytest

from evenflow_torch.run.measure import load as module
from evenflow_torch.run.measure.load import Load, waited_ns
from tests.clocks import SetClock


@pytest.fixture
def waited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(module, "_WAITED", tmp_path / "schedstat")
    monkeypatch.setattr(module, "perf_counter_ns", SetClock(step=1000))
    return tmp_path / "schedstat"


def write(path: Path, waited_ns: int) -> None:
    path.write_text(f"123456 {waited_ns} 7\n", encoding="ascii")


def test_only_watched_time_counts(waited: Path) -> None:
    load = Load()
    assert load.share is None, "nothing was watched"
    for before, after in [(500, 750), (5000, 5450)]:
        write(waited, before)
        with load.watched():
            write(waited, after)
    assert load.share == pytest.approx((250 + 450) / 2000)


def test_a_system_that_does_not_tell(waited: Path) -> None:
    load = Load()
    write(waited, 1)
    with load.watched():
        waited.unlink()
    assert load.share is None
    waited.write_text("odd", encoding="ascii")
    assert waited_ns() is None


@pytest.mark.skipif(not module._WAITED.exists(), reason="the system does not tell")
def test_a_thread_waits_longer_and_longer() -> None:
    first, second = waited_ns(), waited_ns()
    assert first is not None
    assert second is not None
    assert 0 <= first <= second
