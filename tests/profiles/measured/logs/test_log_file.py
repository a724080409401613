"""One log: the run in it that counts."""

import os
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.profiles.measured.logs import step_times
from evenflow.profiles.measured.logs.log_file import parse_log, read_log
from evenflow.targets.registry import log_formats
from tests.profiles.measured.logs import written
from tests.profiles.measured.logs.written import LLAMA, arguments, memory, steps, titan_head, titan_line, titan_step

FRAMEWORKS = {
    "Megatron-LM": [written.iteration(number, 2000.0) for number in range(1, 8)],
    "torchtitan": [titan_step(number, 7000) for number in range(1, 8)],
    "NeMo": [written.nemo_step(number, 2.0) for number in range(1, 8)],
    "MindFormers": [written.mindformers_step(number, 2000) for number in range(1, 8)],
    "Megatron-Bridge": ["Step Time : 2.00s GPU utilization: 612.5MODEL_TFLOP/s/GPU"] * 7,
    "DeepSpeed": [written.deepspeed_step(number, 25.0) for number in range(1, 8)],
}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_framework_is_known_by_its_lines_of_progress(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("\n".join(["noise", *FRAMEWORKS[name], "the end"]), encoding="utf-8")
    run = read_log(tmp_path / "a.log", formats=log_formats()).run
    assert run.format is not None
    assert run.format.name == name
    assert run.steady is not None
    assert run.steady.used == 5


def test_of_megatron_deepspeed_megatrons_lines_count() -> None:
    pairs = zip(FRAMEWORKS["DeepSpeed"], FRAMEWORKS["Megatron-LM"], strict=True)
    run = parse_log([line for pair in pairs for line in pair], place="log", formats=log_formats())
    assert run.format is not None
    assert run.format.name == "Megatron-LM"


def test_a_run_that_begins_again_has_its_own_configuration_and_memory() -> None:
    first = [*arguments(LLAMA), memory(0, 9000.0, 9000.0), *steps([9.0, 9.0, 5.0, 5.0])]
    second = [*arguments(LLAMA | {"num_layers": 16}), memory(0, 100.0, 200.0), *steps([9.0, 9.0, 2.0, 2.0])]
    run = parse_log([*first, *second], place="log", formats=log_formats())
    assert run.stated.whole("num_layers") == 16
    assert run.steady is not None
    assert run.steady.time_s == 0.002
    assert list(run.peaks.values()) == [{0: 100 * 2**20}]
    alone = parse_log(second, place="log", formats=log_formats())
    assert (run.stated, run.peaks, run.steady) == (alone.stated, alone.peaks, alone.steady)


def test_a_run_that_ended_too_early_leaves_the_one_before_it() -> None:
    first = [*arguments(LLAMA), *steps([9.0, 9.0, 5.0, 5.0])]
    run = parse_log([*first, *arguments(LLAMA | {"num_layers": 16}), *steps([7.0])], place="log", formats=log_formats())
    assert run.stated.whole("num_layers") == 32
    assert run.steady is not None
    assert run.steady.time_s == 0.005


def test_ranks_one_after_the_other_in_any_order() -> None:
    first = [*arguments(LLAMA), memory(0, 100.0, 200.0)]
    last = [memory(8, 50.0, 90.0), *steps([9.0, 9.0, 5.0, 5.0])]
    runs = [
        parse_log([*first, *last], place="log", formats=log_formats()),
        parse_log([*last, *first], place="log", formats=log_formats()),
    ]
    assert runs[0].stated == runs[1].stated
    assert runs[0].peaks == runs[1].peaks
    assert runs[0].steady == runs[1].steady
    assert runs[0].steady is not None


def test_ranks_of_torchtitan_that_write_into_one_log() -> None:
    lines = [line for pair in zip(titan_head(), titan_head(), strict=True) for line in pair]
    for number in range(1, 12):
        lines += [titan_step(number, 7000 + number, rank=rank, memory_gib=40.0 + rank) for rank in (0, 1)]
    run = parse_log([line.replace("\x1b", "") for line in lines], place="log", formats=log_formats())
    assert run.steady is not None
    assert (run.steady.logged, run.steady.restarts) == (11, 0)
    assert {rank: size / 2**30 for sizes in run.peaks.values() for rank, size in sizes.items()} == {0: 40.0, 1: 41.0}


def test_what_stands_behind_the_first_step_is_no_configuration() -> None:
    run = parse_log(
        [*titan_head(), titan_step(1, 7000), titan_line("loaded {'seq_len': 5, 'num_layers': 9}")],
        place="log",
        formats=log_formats(),
    )
    assert run.stated.whole("seq_len") == 8192
    assert "num_layers" not in run.stated


@pytest.mark.parametrize("text", ["", "\n\n", "nothing here", "\x00\x01\x02" * 100, "iteration 1/2 |"])
def test_a_log_without_anything_is_empty(text: str) -> None:
    assert parse_log(text.split("\n"), place="log", formats=log_formats()).is_empty


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "none.log", tmp_path, Path("a\0b"), Path(os.devnull)):
        with pytest.raises(InputError, match="cannot read"):
            read_log(path, formats=log_formats())


LOG = "\n".join(
    [*arguments(LLAMA), memory(0, 10.0, 12.0), *titan_head(), *FRAMEWORKS["Megatron-LM"], *FRAMEWORKS["NeMo"]]
)


@given(st.data())
def test_any_piece_of_a_log_gives_a_run_or_one_message(data: st.DataObject) -> None:
    """Truncated, with bytes that were lost, and with pieces in another order."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(LOG)), min_size=1, max_size=6)))
    pieces = [LOG[start:end] for start, end in zip([0, *cuts], [*cuts, len(LOG)], strict=True)]
    noise = data.draw(st.lists(st.text(max_size=10), min_size=len(pieces), max_size=len(pieces)))
    order = data.draw(st.permutations(range(len(pieces))))
    text = "".join(pieces[index] + noise[index] for index in order)
    with suppress(InputError):
        run = parse_log(text.split("\n"), place="log", formats=log_formats())
        assert run.steady is None or run.steady.used >= 1


def test_however_long_a_log_is_it_takes_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def lines(count: int) -> Iterator[str]:
        yield from arguments(LLAMA)
        for number in range(1, count):
            yield written.iteration(number, 2000.0)
            yield "[rank3] some library says something that nobody needs, again and again and again\n"

    monkeypatch.setattr(step_times, "MOST_STEPS", 100)
    tracemalloc.start()
    run = parse_log(lines(5_000), place="log", formats=log_formats())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert run.steady is not None
    assert (run.steady.logged, run.steady.used) == (4_999, 100)
    assert peak < 2**20
