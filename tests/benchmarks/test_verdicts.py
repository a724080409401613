"""Verdicts on published runs: what died is told from what lived, and sources weigh alike."""

from benchmarks.published.verdicts import (
    Verdict,
    left_out_table,
    quantile_lines,
    quantiles,
    ratios,
    stating,
    verdict_table,
    verdicts,
)

from tests.profiles.measured.rows import make_run

LARGE = {"hardware": "h100", "gpus": "8", "dp": "8", "tp": "1", "pp": "1", "mem_gib": "60", "step_s": "1"}


def test_notes_say_what_died() -> None:
    lived, died = make_run(**LARGE), make_run(**{**LARGE, "mem_gib": "", "step_s": "", "notes": "OUT OF MEMORY; rms"})
    silent = make_run(**{**LARGE, "mem_gib": "", "step_s": ""})
    found = verdicts([lived, died, silent])
    assert [verdict.lived for verdict in found] == [True, False]
    assert found[0].probability == found[1].probability


def test_runs_on_unknown_devices_are_left_out() -> None:
    assert not verdicts([make_run(**{**LARGE, "gpus": "", "dp": ""})])


def test_words_are_added_to_what_runs_state() -> None:
    run = make_run(**LARGE, overlap_flags="te")
    assert stating(run, "bf16-gradients").overlap_flags == "te bf16-gradients"
    assert stating(run, "") is run
    small, large = (verdicts([stating(run, words)])[0].probability for words in ("", "bf16-gradients"))
    assert small <= large


def test_a_table_counts_what_is_refused_and_what_is_caught() -> None:
    run = make_run(**LARGE)
    every = [Verdict(run=run, lived=True, probability=share) for share in (0.2, 0.7, 0.95, 0.99)]
    every += [Verdict(run=run, lived=False, probability=share) for share in (0.3, 0.95)]
    row = verdict_table(every).splitlines()[1].split()
    assert row[1:] == ["4", "1", "(25.0", "%)", "2", "(50.0", "%)", "2", "1", "(50.0", "%)", "1", "(50.0", "%)"]


def test_sources_weigh_alike_whatever_their_readings() -> None:
    of = {"many": [1.0] * 90, "few": [2.0] * 10}
    ((_, low), (_, high)) = quantiles(of, (0.2, 0.8))
    assert (low, high) == (1.0, 2.0)
    assert quantile_lines([(0.5, 1.23456)]) == "    (0.5, 1.235),\n"


def test_a_source_is_compared_with_the_others() -> None:
    lines = left_out_table({"high": [1.2] * 5, "low": [1.0] * 5}).splitlines()
    assert lines[1].endswith("0 % (1.00)")
    assert lines[2].endswith("100 % (1.20)")
    assert left_out_table({"alone": [1.0]}).splitlines()[1].endswith("-")


def test_narrow_models_say_nothing_of_margins() -> None:
    wide, narrow = make_run(**LARGE, hidden="4096"), make_run(**LARGE, hidden="1024", id="narrow")
    assert sum(map(len, ratios([wide, narrow]).values())) == 1
