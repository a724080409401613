"""Choices on sweeps: regret, tau beyond the noise, and the usual rules, by hand and by their laws."""

from dataclasses import replace

import pytest
from benchmarks.published.accuracy import DATA
from benchmarks.published.ranking import ranking_groups
from benchmarks.published.sweeps import LEAST_NOISE, OWN, Swept, choice, held_out_s, noise, sweep_table, swept
from benchmarks.published.usual_rules import RULES, Score, bubble_formula, cost_formula, rule_of_thumb
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cluster.data_sheets import accelerator_named
from evenflow.cluster.topology import Topology
from evenflow.predict.training import Degrees, Training
from evenflow.predict.transformer import Transformer
from evenflow.profiles.measured.assumptions import completed
from evenflow.profiles.measured.reading import read_runs
from tests.profiles.measured.rows import make_run

H100 = Topology(accelerator=accelerator_named("h100"), domain_devices=8)
MODEL = Transformer(hidden=4096, layers=32, heads=32, kv_heads=8, head_dim=128, ffn=14336, vocabulary=32000, gated=True)
DIFFERENT = st.lists(st.floats(1, 9), min_size=2, max_size=7, unique=True)


def points(scores, steps) -> list[Swept]:  # type: ignore[no-untyped-def]
    run = make_run()
    return [
        Swept(run=run, measured_s=step, scores={"any": (score,)}) for score, step in zip(scores, steps, strict=True)
    ]


def training(*, microbatch: int = 1, recompute: str = "none", **degrees: int) -> Training:
    return Training(
        model=MODEL, degrees=Degrees(**degrees), microbatch=microbatch, global_batch=64, sequence=4096,
        recompute=recompute,
    )  # fmt: skip


def test_a_choice_by_hand() -> None:
    found = choice(points([1, 2, 3], [11.0, 10.0, 20.0]), "any", above=0.05)
    assert found.regret == pytest.approx(0.1)
    assert (found.agreed, found.pairs) == (1, 3)  # one pair is in reverse, two are as measured
    found = choice(points([1, 2, 3], [11.0, 10.0, 20.0]), "any", above=0.2)
    assert (found.agreed, found.pairs) == (2, 2)  # the pair in reverse is noise


def test_equal_scores_leave_the_choice_open() -> None:
    found = choice(points([1, 1, 2], [10.0, 14.0, 30.0]), "any", above=0.0)
    assert found.regret == pytest.approx(0.2)
    assert (found.agreed, found.pairs) == (2, 3)


@given(DIFFERENT, st.floats(0, 1))
def test_the_measured_order_has_no_regret_and_its_reverse_the_most(steps, above) -> None:
    right = choice(points(steps, steps), "any", above=above)
    assert (right.regret, right.agreed) == (0, right.pairs)
    wrong = choice(points([-step for step in steps], steps), "any", above=above)
    assert wrong.regret == pytest.approx(max(steps) / min(steps) - 1)
    assert wrong.agreed == -right.pairs


def test_noise_is_what_runs_of_the_same_configuration_differ_by() -> None:
    runs = [make_run(id=str(number), step_s=step) for number, step in enumerate(("1.0", "1.1", "1.2"))]
    other = make_run(id="other", mbs="2", step_s="9")
    assert noise([[*runs, other]]) == pytest.approx(0.1 + 0.6 * (0.2 - 0.1))  # of 9.1, 10 and 20 %, at four fifths
    assert noise([[runs[0], other]]) == LEAST_NOISE


def test_configurations_that_were_measured_twice_count_once() -> None:
    runs = [completed(make_run(id=str(number), step_s=step)) for number, step in enumerate(("1.0", "3.0"))]
    (point,) = swept([(runs[0], 5.0), (runs[1], 7.0)])
    assert point.measured_s == 2.0
    assert point.scores[OWN] == (6.0,)
    assert set(point.scores) == {OWN, *RULES}


def test_the_table_has_every_method_of_every_source() -> None:
    runs = [completed(make_run(id=mbs, mbs=mbs, microbatches="", step_s=mbs)) for mbs in ("1", "2", "4")]
    lines = sweep_table({run: float(run.step_s or 0) for run in runs}).splitlines()
    assert len(lines) == 1 + 1 + len(RULES) + 1
    assert lines[-1].split()[1:3] == ["at", "best"]
    assert lines[1].split() == ["lab", "evenflow", "1", "0.0", "0.0", "1", "1.00", "3", "3"]


def test_the_bubble_formula_by_hand() -> None:
    def score(one: Training) -> float:
        return bubble_formula(one, H100)[0]

    plain = score(training(data=8))
    assert score(training(pipeline=4, data=2)) == pytest.approx(plain * (1 + 3 / 32))
    assert score(training(pipeline=4, data=2, chunks=2)) == pytest.approx(plain * (1 + 3 / 64))
    assert score(training(tensor=8)) == pytest.approx(plain)  # it knows no collectives
    assert score(training(data=8, recompute="full")) == pytest.approx(plain * 4 / 3)


def test_the_rule_of_thumb_prefers_the_least_then_tensor_then_a_pipeline() -> None:
    order = [
        training(data=8, microbatch=2),
        training(data=8),
        training(data=8, recompute="full"),
        training(tensor=2, data=4),
        training(pipeline=2, data=4, chunks=2),
        training(pipeline=2, data=4),
        training(tensor=8),
        training(tensor=16),  # across nodes
    ]
    scores: list[Score] = [rule_of_thumb(one, H100) for one in order]
    assert scores == sorted(scores)
    assert len(set(scores)) == len(scores)


def test_the_cost_formula_adds_what_is_sent_to_the_bubble_formula() -> None:
    alone = training()
    assert cost_formula(alone, H100) == bubble_formula(alone, H100)
    for split in (training(tensor=2), training(pipeline=2), training(data=2)):
        assert cost_formula(split, H100)[0] > bubble_formula(split, H100)[0]
    slow = replace(H100, accelerator=replace(H100.accelerator, link_bytes_per_s=1e9))
    sent = [
        cost_formula(training(tensor=2), one)[0] - bubble_formula(training(tensor=2), one)[0] for one in (H100, slow)
    ]
    assert sent[1] / sent[0] == pytest.approx(H100.accelerator.link_bytes_per_s / 1e9)


def test_sweeps_that_are_held_out_are_predicted_and_no_data_of_a_fit() -> None:
    found = held_out_s()
    assert len(found) == 5 + 6 + 12
    assert not {run.id for run in found} & {run.id for file in DATA.glob("*.csv") for run in read_runs(file)}
    assert len(ranking_groups(found)) == 2
    assert all(0.5 < step_s / (run.step_s or 0) < 2.5 for run, step_s in found.items())
