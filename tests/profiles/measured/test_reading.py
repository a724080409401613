"""CSV files of measured runs: what they say is read, and each kind of mistake gives one message."""

import pytest
from benchmarks.published.accuracy import DATA
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import FileError, InputError
from evenflow.profiles.measured.reading import COLUMNS, parse_runs, read_runs
from evenflow.profiles.measured.run import NEEDED
from tests.profiles.measured.rows import PLAIN, csv_text, make_run


def minimal(*columns: str) -> str:
    cells = PLAIN | {"mem_gib": "30.5"}
    return f"{','.join(columns)}\n{','.join(cells[name] for name in columns)}\n"


def refusal(text: str) -> str:
    with pytest.raises(InputError) as error:
        parse_runs(text, file="file.csv")
    return str(error.value)


def test_cells_have_the_types_of_their_columns_and_empty_ones_are_none() -> None:
    run = make_run(mem_gib="70.25", experts="0", notes='"quoted", with comma')
    assert (run.hidden, run.step_s, run.mem_gib, run.experts) == (4096, 1.5, 70.25, 0)
    assert (run.tied_embeddings, run.gated_mlp, run.zero) == (True, False, "distopt")
    assert (run.tokens_s_gpu, run.layout, run.mtp_layers, run.assumed) == (None, None, None, ())
    assert run.notes == '"quoted", with comma'


def test_columns_may_be_in_any_order() -> None:
    assert parse_runs(csv_text({}, columns=tuple(reversed(COLUMNS))), file="file.csv") == (make_run(),)


@pytest.mark.parametrize("file", sorted(DATA.glob("*.csv")), ids=lambda file: file.stem)
def test_the_files_of_the_repository_agree_with_themselves(file) -> None:
    for run in read_runs(file):
        assert not run.lacks
        assert run.step_s or run.mem_gib
        if run.gpus:
            assert run.gpus == run.tp * run.cp * run.pp * run.dp
            assert run.gbs == run.mbs * run.dp * run.microbatches


def test_the_files_of_the_repository_are_small() -> None:
    assert sum(file.stat().st_size for file in DATA.parent.rglob("*") if file.suffix in (".csv", ".json")) < 10**6


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"hidden": "wide"}, "file.csv, line 2: hidden must be a whole number of at least 1, got 'wide'"),
        ({"layers": "0"}, "file.csv, line 2: layers must be a whole number of at least 1, got '0'"),
        ({"layers": "32.0"}, "file.csv, line 2: layers must be a whole number of at least 1, got '32.0'"),
        ({"gbs": "9" * 5000}, "file.csv, line 2: gbs must be a whole number of at least 1"),
        ({"mbs": "٣"}, "file.csv, line 2: mbs must be a whole number of at least 1"),
        ({"experts": "-1"}, "file.csv, line 2: experts must be a whole number of at least 0, got '-1'"),
        ({"step_s": "nan"}, "file.csv, line 2: step_s must be a number from 1e-06 to 1,000,000,000, got 'nan'"),
        ({"step_s": "1_0"}, "file.csv, line 2: step_s must be a number from 1e-06 to 1,000,000,000, got '1_0'"),
        ({"mem_gib": "1e999"}, "file.csv, line 2: mem_gib must be a number from 1e-06 to 1,000,000,000, got '1e999'"),
        ({"mem_gib": "-3"}, "file.csv, line 2: mem_gib must be a number from 1e-06 to 1,000,000,000, got '-3'"),
        ({"gated_mlp": "yes"}, "file.csv, line 2: gated_mlp must be 0, 1 or empty, got 'yes'"),
        ({"ref": " "}, "file.csv, line 2: ref must not be empty"),
    ],
)
def test_a_cell_that_says_nothing_sensible_is_named_with_its_line_and_column(cells, message) -> None:
    assert refusal(csv_text(cells)).startswith(message)


def test_the_line_is_that_of_the_faulty_row() -> None:
    text = csv_text({}, {"id": "b", "notes": "two\nlines"}, {"id": "c", "tp": "x"})
    assert refusal(text).startswith("file.csv, line 5: tp must be")


def test_columns_must_be_those_of_the_format() -> None:
    text = csv_text({})
    assert refusal(text.replace("step_s", "step_sec", 1)) == (
        "file.csv, line 1: step_sec is an unknown column; did you mean 'step_s'?"
    )
    assert refusal(text.replace(",notes", ",id", 1)).startswith("file.csv, line 1: id is given twice")
    assert refusal("").startswith("file.csv, line 1 must have the column hidden, layers, seq, gbs, mbs, tp, pp;")


@pytest.mark.parametrize("absent", NEEDED)
def test_a_file_must_have_what_nobody_can_assume(absent) -> None:
    text = minimal(*(name for name in NEEDED if name != absent), "step_s")
    assert refusal(text).startswith(f"file.csv, line 1 must have the column {absent};")


def test_a_file_must_have_a_measurement() -> None:
    assert refusal(minimal(*NEEDED)).startswith("file.csv, line 1 must have the column step_s / mem_gib")
    assert parse_runs(minimal(*NEEDED, "mem_gib"), file="file.csv")[0].mem_gib == 30.5


def test_all_other_columns_may_be_left_out() -> None:
    (run,) = parse_runs(minimal(*NEEDED, "step_s"), file="runs/mine.csv")
    assert (run.hidden, run.step_s, run.gpus, run.notes) == (4096, 1.5, None, None)
    assert (run.id, run.source, run.ref) == ("mine.csv:2", "mine.csv", "runs/mine.csv:2")


def test_rows_must_be_whole_and_there_and_named_once() -> None:
    text = csv_text({})
    assert refusal(text.rstrip("\n") + ",1\n") == (
        f"file.csv, line 2 must have as many cells as the header ({len(COLUMNS)}), got {len(COLUMNS) + 1}"
    )
    assert refusal(text.splitlines()[0] + "\n") == "file.csv must have a row below the header"
    assert refusal(csv_text({}, {})).startswith("file.csv, line 3: id must be in the file only once, got 'a'")
    assert refusal(text + '"open').startswith("file.csv, line 3 must be CSV")


def test_a_file_that_cannot_be_read_is_refused(tmp_path) -> None:
    with pytest.raises(FileError, match="no such file"):
        read_runs(tmp_path / "absent.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(FileError, match="not UTF-8"):
        read_runs(tmp_path / "bytes.csv")


@given(
    st.integers(0, len(csv_text({}))),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.integers(0, 6),
)
def test_a_spoiled_file_is_read_or_refused_and_nothing_else(at, put, cut) -> None:
    text = csv_text({})
    try:
        parse_runs(text[:at] + put + text[at + cut :], file="file.csv")
    except InputError as error:
        if not str(error).startswith("file.csv"):
            raise
