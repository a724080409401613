"""Tables of scores."""

from benchmarks.published.accuracy import DATA
from benchmarks.published.guesses import HALF, guess_all
from benchmarks.published.predictor import Predicted

from benchmarks.published import report
from evenflow.profiles.measured.assumptions import completed
from evenflow.profiles.measured.reading import read_runs
from tests.profiles.measured.rows import make_run


def twice(run) -> Predicted:
    return Predicted(step_s=2 * (run.step_s or 0), memory_gib=(run.mem_gib or 0) / 2)


def lines(table: str) -> dict[str, list[str]]:
    """Cells of each line by the first one, as far as they have no spaces."""
    return {line.split("  ")[0]: line.split()[len(line.split("  ")[0].split()) :] for line in table.splitlines()}


def test_steps_are_split_by_what_is_stated_and_by_launches() -> None:
    runs = [make_run(id="whole"), make_run(id="part", vocab=""), make_run(id="slow", step_s="90")]
    alone = [make_run(id="v", source=report.ALONE)]
    table = lines(report.time_table({0: guess_all({"a.csv": runs, "b.csv": alone}, twice)}))
    assert table["a"] == ["0", "2", "100.0", "100.0", "+100.0", "+100.0", "whole"]
    assert table["a, all stated"][-1] == "whole"
    assert table["a, something assumed"][-1] == "part"
    assert table["a, waiting for launches"][-1] == "slow"
    assert table["b"][1] == "1"
    assert table[f"all but {report.ALONE}"][1] == "3"


def test_sources_of_one_file_are_split() -> None:
    runs = [make_run(id="a", source="one"), make_run(id="b", source=report.ALONE)]
    table = lines(report.time_table({0: guess_all({"a.csv": runs}, twice)}))
    assert [table[name][-1] for name in ("a, one", f"a, {report.ALONE}", f"all but {report.ALONE}")] == ["a", "b", "a"]


def test_memory_is_split_by_rank_and_too_low_predictions_are_counted() -> None:
    runs = [make_run(id="first", mem_gib="8", mem_rank="last"), make_run(id="second", mem_gib="6", mem_rank="max")]
    table = lines(report.memory_table({0: guess_all({"a.csv": runs}, twice)}))
    assert table["a, last"] == ["0", "1", "50.0", "50.0", "-50.0", "-50.0", "first", "1", "-50.0", "first"]
    assert table["a, max"][-1] == "second"


def test_memory_of_narrow_models_is_apart() -> None:
    runs = [make_run(id="narrow", hidden="512", mem_gib="4"), make_run(id="wide", mem_gib="50")]
    table = lines(report.memory_table({0: guess_all({"a.csv": runs}, twice)}))
    assert table["a, rank not stated, hidden < 2048"][-1] == "narrow"
    assert table["all, hidden >= 2048"] == table["a, rank not stated"]


def test_memory_of_narrow_goldens_is_in_gib() -> None:
    runs = [
        make_run(id="narrow", source="megatron-golden", hidden="512", mem_gib="4"),
        make_run(id="wide", source="megatron-golden", mem_gib="50"),
    ]
    guesses = {0: guess_all({"a.csv": runs}, twice)}
    assert lines(report.small_memory_table(guesses))["megatron-golden"] == [
        "0",
        "1",
        "2.00",
        "-2.00",
        "-2.00",
        "narrow",
    ]
    assert report.small_memory_table({0: guess_all({"a.csv": runs[1:]}, twice)}) == ""


def test_a_predictor_that_knows_the_truth_ranks_without_regret() -> None:
    runs = read_runs(DATA / "bigscience_tr11.csv")
    guesses = guess_all({"big.csv": runs}, twice)
    assert len(report.rankings(guesses)) == 10
    assert lines(report.ranking_table({0: guesses}))["big"][:5] == ["0", "10", "1.00", "0.0", "0.0"]


def test_half_of_the_runs_known_is_said_in_words() -> None:
    runs = [make_run(id=f"row {index}") for index in range(4)]
    guesses = guess_all({"a.csv": runs}, twice, calibrate=lambda predictor, known: predictor, points=HALF)
    assert lines(report.time_table({HALF: guesses}))["a"][:2] == ["half", "2"]


def test_assumptions_and_refusals_are_listed() -> None:
    runs = [make_run(id="one", vocab=""), make_run(id="two", vocab=""), make_run(id="bare", seq="")]
    guesses = guess_all({"a.csv": runs}, twice)
    assert lines(report.assumption_table(guesses))["a"][:3] == ["2", "vocab", "50257"]
    assert report.refusals(guesses) == "bare: the source does not state seq"
    assert completed(runs[0]).vocab == 50257


def test_the_summary_has_a_row_for_every_source() -> None:
    runs = [make_run(id="timed"), make_run(id="weighed", step_s="", mem_gib="8", hardware="a100-40")]
    other = [make_run(id="other", source="other")]
    every = guess_all({"a.csv": runs, "b.csv": other}, twice)
    table = report.summary_table({0: every, HALF: every[:1]}).splitlines()
    assert [line.split("  ")[0] for line in table] == ["mean errors %", "a", "b"]
    assert table[1].split()[-5:] == ["100.0", "100.0", "50.0", "-", "-"]  # of the half, only a step; nothing to rank
    assert table[2].split()[-5:] == ["100.0", "-", "-", "-", "-"]
    assert table[1].split()[1:3] == ["a100", "h100"]
