"""Peaks in the logs of dry runs: what is read, and what is wrong with a folder or a text."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.profiles.logs.stage_peaks import PeakKind
from evenflow.targets.frameworks.mindformers.peak_logs import parse_peak_lines, read_peak_folder
from evenflow.units import MEGABYTE

FOLDERS = {"guide": "stage_{0}_rank_{1}", "original": "log/stage{0}_{1}"}


def mb(*peaks):
    return tuple(peak * MEGABYTE for peak in peaks)


def log(actual, used):
    return (
        "Device MOC memory size: 62432M\n"
        f"Used peak memory usage (without fragments): {used}M\n"
        f"Actual peak memory usage (with fragments): {actual}M\n"
    )


def write_logs(folder, peaks, *, form="guide", gap=8):
    for stage, (actual, used) in enumerate(peaks):
        path = folder / FOLDERS[form].format(stage, stage * gap)
        path.mkdir(parents=True)
        (path / "mindformer.log").write_text("compiling\n" + log(actual, used))


@pytest.mark.parametrize("form", FOLDERS)
def test_both_forms_of_folders_and_both_peaks(tmp_path, form):
    write_logs(tmp_path, [(30, 29), (20, 18), (10, 10)], form=form)
    assert read_peak_folder(tmp_path) == mb(30, 20, 10)
    assert read_peak_folder(tmp_path, kind=PeakKind.USED) == mb(29, 18, 10)


@given(
    peaks=st.lists(st.tuples(st.integers(1, 10**6), st.integers(1, 10**6)), min_size=2, max_size=6),
    order=st.randoms(),
    prefix=st.sampled_from(["", "output_dryrun/", "./a b/log/"]),
    form=st.sampled_from(sorted(FOLDERS)),
    kind=st.sampled_from(PeakKind),
)
def test_grep_lines_in_any_order_give_the_peaks_they_say(peaks, order, prefix, form, kind):
    lines = [
        f"{prefix}{FOLDERS[form].format(stage, 4 * stage)}/mindformer.log:{number}:{line}"
        for stage, pair in enumerate(peaks)
        for number, line in enumerate(log(*pair).splitlines(), start=1)
    ]
    order.shuffle(lines)
    expected = mb(*(pair[kind is PeakKind.USED] for pair in peaks))
    assert parse_peak_lines(lines, place="grep", kind=kind) == expected


def test_the_last_occurrence_counts(tmp_path):
    write_logs(tmp_path, [(30, 29), (20, 18)])
    first = tmp_path / "stage_0_rank_0" / "mindformer.log"
    first.write_text(log(30, 29) + log(41, 40) + "the end\n")
    assert read_peak_folder(tmp_path) == mb(41, 20)
    lines = [f"stage_{stage}_rank_0/a.log:9:{line}" for stage in (0, 1) for line in (log(1, 1) + log(7, 7)).split("\n")]
    assert parse_peak_lines(lines, place="grep") == mb(7, 7)
    redrawn = [line.replace("Actual", f"{log(5, 5).splitlines()[2]}\rActual") for line in lines]
    assert parse_peak_lines(redrawn, place="grep") == mb(7, 7)


@pytest.mark.parametrize("before", [0, 1, 2**20 - 60, 2**20 - 30, 2**20, 2**21 + 5])
def test_the_line_is_found_wherever_blocks_of_a_long_log_end(tmp_path, before):
    write_logs(tmp_path, [(30, 29), (20, 18)])
    noise = "x" * 999 + "\n"
    after = (noise * (before // len(noise) + 1))[:before]
    (tmp_path / "stage_0_rank_0" / "mindformer.log").write_text(noise * 3000 + log(12345, 29) + after)
    assert read_peak_folder(tmp_path)[0] == 12345 * MEGABYTE


def test_units_are_understood_and_zero_is_not_a_peak():
    lines = ["stage_0_rank_0/a.log:1:" + log(1, 1).replace("1M", "2G"), "stage_1_rank_8/a.log:1:" + log(7, 7)]
    assert parse_peak_lines(lines, place="grep") == mb(2048, 7)
    for bad in ("7Q", "0M"):
        with pytest.raises(InputError, match="the peak memory must be"):
            parse_peak_lines([lines[0], lines[1].replace("7M", bad)], place="grep")


# --- what can be wrong with logs -----------------------------------------------------------------------------------


def test_a_missing_stage_is_named(tmp_path):
    write_logs(tmp_path, [(30, 29), (20, 18), (10, 10), (9, 9)])
    for stage in (1, 2):
        path = tmp_path / f"stage_{stage}_rank_{8 * stage}"
        (path / "mindformer.log").unlink()
        path.rmdir()
    with pytest.raises(InputError, match="none of 1, 2"):
        read_peak_folder(tmp_path)


def test_a_failed_dry_run_shows_its_last_error(tmp_path):
    write_logs(tmp_path, [(30, 29), (20, 18)])
    failed = tmp_path / "stage_1_rank_8" / "mindformer.log"
    failed.write_text("ValueError: first\nRuntimeError: out of host memory\n  at somewhere\n\n")
    with pytest.raises(InputError, match=r"stage_1_rank_8.*not finished.*'RuntimeError: out of host memory'"):
        read_peak_folder(tmp_path)
    failed.write_text("compiling the graph\n")
    with pytest.raises(InputError, match=r"last line is 'compiling the graph'"):
        read_peak_folder(tmp_path)
    failed.write_text("")
    with pytest.raises(InputError, match="the log is empty"):
        read_peak_folder(tmp_path)


def test_two_logs_for_a_stage_are_refused(tmp_path):
    write_logs(tmp_path, [(30, 29), (20, 18)])
    again = tmp_path / "stage_1_rank_8" / "old.log"
    again.write_text(log(5, 5))
    with pytest.raises(InputError, match=r"one \*\.log.*old\.log"):
        read_peak_folder(tmp_path)
    again.unlink()
    other = tmp_path / "before" / "stage_1_rank_4"
    other.mkdir(parents=True)
    (other / "mindformer.log").write_text(log(5, 5))
    with pytest.raises(InputError, match="stage 1 has two"):
        read_peak_folder(tmp_path)
    lines = ["stage_0_rank_0/a.log:1:" + log(1, 1), "stage_0_rank_0/b.log:1:" + log(1, 1)]
    with pytest.raises(InputError, match="stage 0 has two"):
        parse_peak_lines(lines, place="grep")


def test_folders_that_are_no_logs_of_all_stages(tmp_path):
    with pytest.raises(InputError, match="a folder for each stage"):
        read_peak_folder(tmp_path)
    write_logs(tmp_path, [(30, 29)])
    with pytest.raises(InputError, match="name the folder above"):
        read_peak_folder(tmp_path / "stage_0_rank_0")
    (tmp_path / "stage_1_rank_8").mkdir()
    with pytest.raises(InputError, match=r"stage_1_rank_8 must have a \*\.log"):
        read_peak_folder(tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nothing of interest", "must have lines with 'Actual peak memory usage'"),
        ("stage_0_rank_0/a.log:1:Used peak memory usage (without fragments): 1M", "give --used"),
        ("Actual peak memory usage (with fragments): 1M", "must begin every line with the path"),
        (
            "[Rank 0] memory (MB) | allocated: 1 | max allocated: 2 | reserved: 3 | max reserved: 4",
            "give --ranks-per-stage",
        ),
    ],
)
def test_text_without_the_peaks_of_stages(line, message):
    with pytest.raises(InputError, match=message):
        parse_peak_lines([line], place="grep")


def test_used_lines_are_missing():
    lines = ["stage_0_rank_0/a.log:1:Actual peak memory usage (with fragments): 1M"]
    with pytest.raises(InputError, match="leave --used out"):
        parse_peak_lines(lines, place="grep", kind=PeakKind.USED)


# --- anything else is a message, never another exception ------------------------------------------------------------

PIECES = st.sampled_from(
    [
        *("stage_", "stage_0_rank_0/a.log", "stage1_8/m.log", ":12:", "Used peak memory usage (without fragments):"),
        *("Actual peak memory usage (with fragments): ", "96643M", "9" * 400, "1e5", "-3"),
        *("\n", "\r", "\x00", "/", "é", " "),
    ]
)


@given(text=st.lists(PIECES | st.text(max_size=5), max_size=40).map("".join), kind=st.sampled_from(PeakKind))
def test_any_text_gives_peaks_or_one_message(text, kind):
    with suppress(InputError):
        peaks = parse_peak_lines(text.split("\n"), place="fuzz", kind=kind)
        assert min(peaks) > 0


@given(data=st.binary(max_size=300))
def test_any_bytes_in_a_log_give_a_message(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("logs")
    write_logs(folder, [(30, 29), (20, 18)])
    (folder / "stage_1_rank_8" / "mindformer.log").write_bytes(data)
    with pytest.raises(InputError, match="not finished"):
        read_peak_folder(folder)
