from dataclasses import replace

import pytest

from evenflow.cli.text.display_width import display_width
from evenflow.cli.text.tune.ranking_text import nothing_text, tune_text
from evenflow.export.results.tune_fields import TuneSetting
from evenflow.language import CHINESE, speaking
from evenflow.predict import prediction as prediction_module
from evenflow.predict.expected_error import ErrorRange
from evenflow.predict.training import Degrees
from evenflow.predict.transformer import Experts
from evenflow.tune import error as error_module
from evenflow.tune.candidate import Candidate
from evenflow.tune.error import contenders
from tests.predict.trainings import LLAMA, training
from tests.tune.rankings import QUESTION, candidate, ranking

SETTING = TuneSetting(
    rows=10, target="megatron", version="0.13", assumed=("--precision=bf16", "--attention=fused"), notes=("it is so",)
)


@pytest.fixture(autouse=True)
def tenth(monkeypatch):
    """Measured steps are within a seventh, and differences of a fortieth can be told."""
    error = ErrorRange(low=-0.05, high=0.25, runs=12, sources=3, of="ampere, dense")
    monkeypatch.setattr(prediction_module, "expected_error", lambda *_: error)
    monkeypatch.setattr(error_module, "difference_error", lambda *_: replace(error, low=1 / 1.025 - 1))


GOLDEN = """\
small: 8 layers, 0.2 billion parameters, bf16 on 8 x round, for It
16 sequences of 2,048 tokens a step, 16.0 GB of memory on a device

#    TP  CP     PP  DP  MBS  schedule     ZeRO  recompute    step ms  ±%  MFU%  peak  free  fits%  largest loss
1≈    2   1      4   1    1  1f1b            1  none           400.0  15  11.8  12.0   4.0     97  bubble 25 %
2≈!   2   1  2 x 2   2    1  interleaved     1  full 2 of 8    404.0  15  11.7  15.5   0.5     71  bubble 25 %
3     1   2      1   4    1  1f1b            3  full           500.0  15   9.4   8.0   8.0    >99  bubble 25 %
(left out at 120 columns: tokens/s)

TP, CP, EP, PP x chunks, DP: ways of tensor, context, expert, pipeline and data parallelism; MBS: sequences of a
microbatch; tokens/s: of a device; peak, free: GB of the fullest device, and below the limit; largest loss: what takes
most of the step beside computation, memory by what it makes recompute
fits%: the probability that all devices have enough memory; rows below 50 % are left out (--confidence)
±: four of five measured steps of this kind were within it of the prediction; of the first, from 380 to 500 ms
≈ cannot be told apart: 2 of 3 are within 2.5 % of the first; nine of ten measured pairs that are predicted further
apart ran in that order
! rows that many would refuse: less than 90 % sure to fit are 2

no configuration of this space is faster than 396.0 ms in this model (proven): at most 1.00 % of the first could be
saved
4 legal configurations: 1 refuted by a lower bound, 3 solved, in 1.5 s
43 combinations are not legal: microbatch 40, tensor 3

the space: 1f1b, interleaved; at most tensor 8, context 2, microbatch 16, chunks 8 (--max-…)
cells may hold no layer
decided: zero 1

to go on with the first:
evenflow plan tune.json
evenflow export tune.json --to megatron

of the model: it is so
assumed: --precision=bf16, --attention=fused"""


def test_golden():
    assert tune_text(ranking(), SETTING, plan_file="tune.json") == GOLDEN


def test_rows_that_cannot_be_the_fastest_are_not_shown(monkeypatch):
    narrow = ErrorRange(low=-0.05, high=0.15, runs=12, sources=3, of="ampere, dense")
    monkeypatch.setattr(prediction_module, "expected_error", lambda *_: narrow)
    text = tune_text(ranking(), SETTING, plan_file=None)
    assert "\n2≈" in text
    assert "\n3 " not in text, "475 ms at its low end, where the first takes 460 ms at its high end"
    assert "1 more row is not shown: its interval lies above that of the first" in text
    assert len(contenders(ranking().ranked, 10)) == 2


def test_as_many_rows_as_asked_for():
    text = tune_text(ranking(), replace(SETTING, rows=1), plan_file=None)
    assert "\n1≈   2   4 " in text, "no column for context, which this row does not split"
    assert "\n2≈" not in text
    assert "2 of 3 are within 2.5 %" in text
    assert "add --json tune.json, then\nevenflow export tune.json --to megatron" in text


def test_one_is_not_several():
    question = replace(QUESTION, model=replace(LLAMA, layers=1), global_batch=1)
    lines = tune_text(ranking(question=question), SETTING, plan_file=None).splitlines()
    assert lines[0].startswith("small: 1 layer, ")
    assert lines[1].startswith("1 sequence of 2,048 tokens a step, ")


def test_without_a_framework_no_file_of_one_is_promised():
    for plan_file in (None, "tune.json"):
        text = tune_text(ranking(), replace(SETTING, target=""), plan_file=plan_file)
        assert "evenflow plan tune.json\nwith --target NAME" in text
        assert "--to" not in text


def test_a_first_that_stands_alone_has_no_mark():
    ranked = ranking().ranked
    text = tune_text(ranking(ranked=(ranked[0], ranked[2])), SETTING, plan_file=None)
    assert "≈" not in text


def test_what_was_interrupted_says_so():
    text = tune_text(ranking(interrupted=True, lower_bound_ns=0.0), SETTING, plan_file=None)
    assert "interrupted: this is the ranking so far, with its bound" in text
    assert "nothing is proven yet of the other configurations" in text


@pytest.mark.parametrize("language", ["en", CHINESE])
def test_the_widest_ranking_fits_in_120_columns(language):
    """Every degree has a column, a long schedule and two kinds are there: then tokens and utilisation give way."""
    model = replace(LLAMA, layers=128, experts=Experts(count=8, active=2, ffn=1024))
    wide = candidate(
        training(
            model=model,
            degrees=Degrees(tensor=2, pipeline=16, chunks=8, context=2, data=2, expert=2, expert_tensor=2),
            schedule="interleaved-less-memory",
            layout=((1,) * 16,) * 8,
        ),
        step_ms=1_234_567.8,
        gigabytes=15.0,
        full=((1,) * 16,) * 4 + ((0,) * 16,) * 4,
    )
    with speaking(language):
        lines = tune_text(ranking(ranked=(wide,)), SETTING, plan_file="tune.json").splitlines()
    assert max(map(display_width, lines)) <= 120
    row = next(line for line in lines if line.startswith("1! ")).split()
    assert "full 64 of 128" in " ".join(row) or language == CHINESE
    assert "1,234,567.8" in row
    assert "tokens/s" not in lines[3]


def test_rows_that_another_split_may_come_before():
    tuned = ranking()
    other = Candidate(
        training=training(degrees=Degrees(tensor=4, pipeline=2)), pricing=tuned.ranked[0].pricing, lower_bound_ns=402e6
    )
    for bound_ns, row in ((390e6, 1), (402e6, 2), (404e6, 3), (501e6, None)):
        left = replace(other, lower_bound_ns=bound_ns)
        text = tune_text(replace(tuned, made=(*tuned.made, left)), SETTING, plan_file=None)
        sentence = f"splits that were not solved could stand before row {row} and those after it"
        assert (sentence in text) == (row is not None)
        assert ("could stand before" in text) == (row is not None)


def test_without_time_it_says_what_gives_more():
    text = nothing_text(ranking(ranked=(), lower_bound_ns=1e6))
    assert "no configuration was found in the time given" in text
    assert "--time-limit allows more seconds" in text


def test_nothing_is_legal():
    text = nothing_text(ranking(ranked=(), made=(), lower_bound_ns=float("inf")))
    assert "no configuration is legal" in text
    assert "43 combinations are not legal" in text
    assert not any(word in text for word in ("fits", "0 legal", "--time-limit"))


def test_rules_have_the_names_of_options():
    text = tune_text(ranking(excluded={"global_batch": 7}), SETTING, plan_file=None)
    assert "7 combinations are not legal: global-batch 7" in text


def test_nothing_fits():
    text = nothing_text(ranking(ranked=(), lower_bound_ns=float("inf"), question=replace(QUESTION, fixed={})))
    assert "no configuration fits" in text
    assert "43 combinations are not legal: microbatch 40, tensor 3" in text
    assert "decided" not in text
