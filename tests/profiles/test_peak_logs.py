import itertools
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.profiles.peak_logs import (
    PeakKind,
    format_memory_usage,
    parse_peak_lines,
    parse_rank_lines,
    read_peak_folder,
)
from evenflow.units import MEGABYTE

# What grep finds in the logs of the 175B example, and the block that was written from it. [SAPP guide, llama调优实例]
GREP = """\
stage_0_rank_0/mindformer.log:5478:Actual peak memory usage (with fragments): 96643M
stage_1_rank_1024/mindformer.log:5482:Actual peak memory usage (with fragments): 60854M
stage_2_rank_2048/mindformer.log:5458:Actual peak memory usage (with fragments): 27620M
stage_3_rank_3072/mindformer.log:5470:Actual peak memory usage (with fragments): 54533M
stage_4_rank_4096/mindformer.log:5494:Actual peak memory usage (with fragments): 100631M
stage_5_rank_5120/mindformer.log:5470:Actual peak memory usage (with fragments): 31713M
stage_6_rank_6144/mindformer.log:5470:Actual peak memory usage (with fragments): 38874M
stage_7_rank_7168/mindformer.log:5542:Actual peak memory usage (with fragments): 146986M
stage_8_rank_8192/mindformer.log:5470:Actual peak memory usage (with fragments): 31713M
stage_9_rank_9216/mindformer.log:5470:Actual peak memory usage (with fragments): 24553M
stage_10_rank_10240/mindformer.log:5470:Actual peak memory usage (with fragments): 24553M
stage_11_rank_11264/mindformer.log:5482:Actual peak memory usage (with fragments): 28484M
stage_12_rank_12288/mindformer.log:5494:Actual peak memory usage (with fragments): 45016M
stage_13_rank_13312/mindformer.log:5494:Actual peak memory usage (with fragments): 33763M
stage_14_rank_14336/mindformer.log:5482:Actual peak memory usage (with fragments): 20463M
stage_15_rank_15360/mindformer.log:5496:Actual peak memory usage (with fragments): 23531M
"""
BLOCK = """\
memory_usage:
  head_memory: 96643
  tail_memory: 23531
  body_memories:
    stage_id: [1,2,3,4,5,6,7,8,9,10,11,12,13,14]
    memories: [60854,27620,54533,100631,31713,38874,146986,31713,24553,24553,28484,45016,33763,20463]
"""
TWO_ROUNDS = """\
memory_usage:
  head_memory: 66502
  tail_memory: 25599
  body_memories:
    stage_id: [[1,2],[1,2]]
    memories: [[52536,35595],[45439,35700]]
"""
MEGATRON = (
    "[Rank {}] (after 2 iterations) memory (MB) | allocated: 3.5 | max allocated: {} | reserved: 6.0 | max reserved: {}"
)

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


def test_the_documents_peaks_become_the_documents_block():
    assert format_memory_usage([parse_peak_lines(GREP.splitlines(), place="grep")]) == BLOCK


def test_two_rounds_become_the_documents_lists_of_lists():
    assert format_memory_usage([mb(66502, 52536, 35595, 25599), mb(70000, 45439, 35700, 30000)]) == TWO_ROUNDS


def test_rounds_of_different_length_are_refused():
    with pytest.raises(InputError, match=r"round 2.*3 stages"):
        format_memory_usage([mb(1, 2, 3), mb(1, 2)])


def test_two_stages_have_none_between():
    with pytest.raises(InputError, match="three stages or more"):
        format_memory_usage([mb(1, 2)])


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
    with pytest.raises(InputError, match=r"'compiling the graph'.*last line"):
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
    with pytest.raises(InputError, match="name the one above"):
        read_peak_folder(tmp_path / "stage_0_rank_0")
    (tmp_path / "stage_1_rank_8").mkdir()
    with pytest.raises(InputError, match=r"stage_1_rank_8: .*has a \*\.log"):
        read_peak_folder(tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nothing of interest", "lines with 'Actual peak memory usage'"),
        ("stage_0_rank_0/a.log:1:Used peak memory usage (without fragments): 1M", "give --used"),
        ("Actual peak memory usage (with fragments): 1M", "begins with the log's path"),
        (MEGATRON.format(0, 1.5, 2.5), "give --ranks-per-stage"),
    ],
)
def test_text_without_the_peaks_of_stages(line, message):
    with pytest.raises(InputError, match=message):
        parse_peak_lines([line], place="grep")


def test_used_lines_are_missing():
    lines = ["stage_0_rank_0/a.log:1:Actual peak memory usage (with fragments): 1M"]
    with pytest.raises(InputError, match="leave --used out"):
        parse_peak_lines(lines, place="grep", kind=PeakKind.USED)


def test_of_megatrons_ranks_the_fullest_of_a_stage_counts():
    # 2 stages of 4 ranks; two tensor-parallel ranks of each report, rank 1 a second time and beside another rank.
    lines = [
        "iteration 2/10 | lm loss: 9",
        f"0: {MEGATRON.format(0, 10, 12)}",
        MEGATRON.format(1, 50, 60),
        MEGATRON.format(4, 7, 8) + MEGATRON.format(5, "7.25", "8.5"),
        MEGATRON.format(1, 11, 13),
    ]
    assert parse_rank_lines(lines, ranks_per_stage=4, place="log") == (13 * MEGABYTE, round(8.5 * MEGABYTE))
    used = parse_rank_lines(lines, ranks_per_stage=4, place="log", kind=PeakKind.USED)
    assert used == (11 * MEGABYTE, round(7.25 * MEGABYTE))
    with pytest.raises(InputError, match="none of 1"):
        parse_rank_lines(lines, ranks_per_stage=2, place="log")
    with pytest.raises(InputError, match="log-interval"):
        parse_rank_lines(["nothing"], ranks_per_stage=2, place="log")


# --- anything else is a message, never another exception ------------------------------------------------------------

PIECES = st.sampled_from(
    [
        *("stage_", "stage_0_rank_0/a.log", "stage1_8/m.log", ":12:", "Used peak memory usage (without fragments):"),
        *("Actual peak memory usage (with fragments): ", "96643M", "9" * 400, "1e5", "-3", "[Rank 3] "),
        *("[Rank " + "9" * 30, "memory (MB) | allocated: 1 | max allocated: 2 | reserved: 3 | max reserved: 4"),
        *("\n", "\r", "\x00", "/", "é", " "),
    ]
)


@given(text=st.lists(PIECES | st.text(max_size=5), max_size=40).map("".join))
def test_any_text_gives_peaks_or_one_message(text):
    readers = (parse_peak_lines, lambda lines, **rest: parse_rank_lines(lines, ranks_per_stage=1, **rest))
    for reader, kind in itertools.product(readers, PeakKind):
        with suppress(InputError):
            peaks = reader(text.split("\n"), place="fuzz", kind=kind)
            assert min(peaks) > 0


@given(data=st.binary(max_size=300))
def test_any_bytes_in_a_log_give_a_message(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("logs")
    write_logs(folder, [(30, 29), (20, 18)])
    (folder / "stage_1_rank_8" / "mindformer.log").write_bytes(data)
    with pytest.raises(InputError, match="not finished"):
        read_peak_folder(folder)
