"""Rankings: Kendall's tau, regret, and the groups in which they are taken."""

from itertools import pairwise

import pytest
from benchmarks.published.accuracy import DATA
from benchmarks.published.ranking import kendall_tau, rank, ranking_groups, regret
from hypothesis import given
from hypothesis import strategies as st

from evenflow.profiles.measured.assumptions import completed
from evenflow.profiles.measured.reading import read_runs
from tests.profiles.measured.rows import make_run

TIMES = st.lists(st.floats(0.1, 1000), min_size=2, max_size=12)
DIFFERENT = st.lists(st.integers(1, 10**6), min_size=2, max_size=12, unique=True)


@given(DIFFERENT)
def test_tau_of_the_same_order_is_one_and_of_the_reverse_minus_one(times) -> None:
    assert kendall_tau(times, [3 * time + 1 for time in times]) == pytest.approx(1)
    assert kendall_tau(times, [-time for time in times]) == pytest.approx(-1)


@given(DIFFERENT, st.randoms())
def test_tau_is_symmetric_and_changes_its_sign_with_the_order(times, random) -> None:
    other = random.sample(times, len(times))
    tau = kendall_tau(times, other)
    assert tau is not None
    assert -1 <= tau <= 1
    assert kendall_tau(other, times) == pytest.approx(tau)
    assert kendall_tau([-time for time in times], other) == pytest.approx(-tau)


def test_tau_of_lists_with_ties() -> None:
    # Of six pairs one is tied here and one there: 4 agree, none disagree, so 4 / sqrt(5 * 5).
    assert kendall_tau([1, 1, 2, 3], [1, 2, 3, 3]) == pytest.approx(0.8)
    assert kendall_tau([1, 1, 1], [1, 2, 3]) is None


@given(TIMES)
def test_a_perfect_ranking_has_no_regret(times) -> None:
    assert regret(times, times) == 0
    assert regret([2 * time for time in times], times) == 0


@given(TIMES, st.randoms())
def test_regret_is_between_none_and_that_of_the_slowest(times, random) -> None:
    guess = random.sample(times, len(times))
    assert 0 <= regret(guess, times) <= max(times) / min(times) - 1
    assert regret([1.0] * len(times), times) == max(times) / min(times) - 1


def test_configurations_that_were_measured_twice_count_once() -> None:
    runs = [make_run(id=str(index), mbs=str(mbs), step_s=str(step))
            for index, (mbs, step) in enumerate([(1, 4), (2, 2), (2, 4), (4, 6)])]  # fmt: skip
    pairs = list(zip(runs, (1.0, 2.0, 2.0, 3.0), strict=True))
    found = rank("group", pairs)
    assert found is not None
    assert (found.count, found.regret) == (3, pytest.approx(4 / 3 - 1))  # the one that was measured twice took 3 s
    assert rank("group", pairs[:3]) is None


def test_groups_differ_in_nothing_but_the_configuration() -> None:
    runs = [make_run(id=f"{gbs} {mbs}", gbs=gbs, mbs=mbs) for gbs in ("16", "32") for mbs in ("1", "2", "4")]
    untimed = make_run(id="untimed", mbs="8", step_s="", mem_gib="3")
    other_model = make_run(id="heads", mbs="8", heads="64")
    groups = ranking_groups([*runs, untimed, other_model, make_run(id="alone", hardware="a100-40")])
    assert [[run.id for run in group] for group in groups.values()] == [
        ["16 1", "16 2", "16 4"],
        ["32 1", "32 2", "32 4"],
    ]
    assert next(iter(groups)) == "lab, h100, small, heads 32, gpus 8, seq 2048, bf16, gbs 16"


def test_the_groups_of_the_repository() -> None:
    counts = {file.stem: len(ranking_groups(map(completed, read_runs(file)))) for file in DATA.glob("*.csv")}
    assert {name: count for name, count in counts.items() if count} == {
        "vtrain_single": 88, "vtrain_multi": 2, "bigscience_tr11": 10, "bigscience_tr3m": 1, "megatron_bridge": 2,
    }  # fmt: skip


@given(st.lists(st.floats(1, 100), min_size=3, max_size=8, unique=True))
def test_a_ranking_by_the_measured_times_is_perfect(times) -> None:
    runs = [make_run(id=str(index), mbs=str(index + 1), step_s=repr(time)) for index, time in enumerate(times)]
    found = rank("group", [(run, run.step_s or 0.0) for run in runs])
    assert found is not None
    assert found.tau == pytest.approx(1)
    assert found.regret == 0
    assert all(one.configuration != other.configuration for one, other in pairwise(runs))
