"""Measured runs from CSV files, logs and folders alike."""

import gzip
from pathlib import Path

import pytest

from evenflow.errors import InputError
from evenflow.profiles.measured.sources import Source, read_measured, sniff
from evenflow.targets.registry import log_formats
from tests.profiles.measured.logs.written import LLAMA, arguments, steps, titan_head, titan_step

CSV = "hidden,layers,seq,gbs,mbs,tp,pp,step_s\n512,4,1024,8,1,1,1,0.25\n"
LOG = "\n".join([*arguments(LLAMA), *steps([9000, 3000, 2000, 2000])])


def test_what_a_path_leads_to(tmp_path: Path) -> None:
    for name, text, kind in (
        ("a.csv", "anything", Source.CSV),
        ("a", CSV, Source.CSV),
        ("b", "\ufeff" + CSV, Source.CSV),
        ("b.log", LOG, Source.LOG),
        ("c.log", "hidden, layers", Source.LOG),
        ("empty", "", Source.LOG),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert sniff(tmp_path / name) is kind, name
    assert sniff(tmp_path) is Source.FOLDER


def test_runs_come_in_the_order_of_their_sources(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text(CSV, encoding="utf-8")
    (tmp_path / "logs").mkdir()
    for path in (tmp_path / "a.log", tmp_path / "logs" / "b.log"):
        path.write_text(LOG, encoding="utf-8")
    runs = read_measured([tmp_path / "logs", tmp_path / "runs.csv", tmp_path / "a.log"], formats=log_formats())
    assert [(run.layers, run.step_s) for run in runs] == [(32, 2.0), (4, 0.25), (32, 2.0)]
    assert len({run.id for run in runs}) == 3


def test_a_source_twice(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(LOG, encoding="utf-8")
    with pytest.raises(InputError, match="must be given once"):
        read_measured([tmp_path / "a.log", tmp_path / "a.log"], formats=log_formats())


def test_packed_logs(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(gzip.compress(LOG.encode()))
    with pytest.raises(InputError, match="it is packed; unpack it first: gunzip"):
        read_measured([tmp_path / "a.log"], formats=log_formats())


@pytest.mark.parametrize("name", ["none.log", "none.csv", "a\0b"])
def test_what_cannot_be_read(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        read_measured([tmp_path / name], formats=log_formats())


PLANNED = "id,hidden,layers,seq,gbs,mbs,tp,pp,gpus,hardware,recompute,step_s\n"


def test_a_row_without_a_step_describes_the_run_of_a_log(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text(
        f"{PLANNED}run-0,4096,32,8192,64,1,1,1,64,h100,selective,\nrun-1,4096,32,8192,64,1,1,1,64,h100,none,\n"
    )
    (tmp_path / "run-0.log").write_text("\n".join(titan_step(number, 8192) for number in range(1, 12)))
    first, second = read_measured([tmp_path / "run-0.log", tmp_path / "runs.csv"], formats=log_formats())
    assert (first.id, first.hidden, first.recompute, first.hardware) == (
        str(tmp_path / "run-0.log"), 4096, "selective", "h100",
    )  # fmt: skip
    assert first.step_s == pytest.approx(64 * 8192 / (8192 * 64))
    assert (second.id, second.step_s) == ("run-1", None)


def test_a_log_must_be_of_the_run_that_is_described(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text(f"{PLANNED}run-0,4096,32,8192,64,1,8,1,64,h100,none,\n")
    (tmp_path / "run-0.log").write_text("\n".join([*titan_head(), *(titan_step(n, 8192) for n in range(1, 12))]))
    with pytest.raises(InputError, match=r"run-0\.log: tp must be 8, as its description run-0 says, got 1"):
        read_measured([tmp_path / "runs.csv", tmp_path / "run-0.log"], formats=log_formats())
