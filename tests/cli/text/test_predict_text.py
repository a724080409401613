from dataclasses import replace

import pytest

from evenflow.cli.text.display_width import display_width
from evenflow.cli.text.predict_text import predict_text
from evenflow.export.results.prediction_fields import NextPlan, PredictionSetting
from evenflow.language import CHINESE, speaking
from evenflow.predict import prediction as prediction_module
from evenflow.predict.expected_error import ALL, CALIBRATED, ErrorRange
from evenflow.predict.memory import Held, RankMemory
from evenflow.predict.prediction import PartTime, Prediction, predict
from evenflow.predict.training import Degrees
from evenflow.predict.transformer import Experts
from evenflow.units import MEGABYTE
from tests.predict.trainings import LLAMA, TOPOLOGY, training, with_memory

GIGABYTE = 2**30
PARTS = (
    PartTime(name="matrix products", exposed_ns=300e6, recomputed_ns=60e6),
    PartTime(name="expert-parallel communication", exposed_ns=0.0),
    PartTime(name="tensor-parallel communication", exposed_ns=80e6, hidden_ns=20e6),
    PartTime(name="bubble", exposed_ns=20e6),
)


def memory(*gigabytes: float) -> tuple[RankMemory, ...]:
    """Ranks with so much of parameters, and half as much of logits on the last."""
    ranks = [RankMemory(parts={Held.PARAMETERS: int(each * GIGABYTE), Held.MLP: GIGABYTE}) for each in gigabytes]
    last = {**ranks[-1].parts, Held.LOGITS: GIGABYTE // 2}
    return (*ranks[:-1], RankMemory(parts=last))


@pytest.fixture
def prediction(monkeypatch: pytest.MonkeyPatch) -> Prediction:
    """A prediction whose numbers a person can check."""
    found = predict(training(), TOPOLOGY)
    error = ErrorRange(low=-0.1, high=0.25, runs=12, sources=3, of="ampere, dense")
    monkeypatch.setattr(prediction_module, "expected_error", lambda *_: error)
    return with_memory(found, memory(4, 3, 2, 1), step_ns=400e6, parts=PARTS, idle_ns=(60e6, 40e6, 20e6, 40e6))


GOLDEN = """\
small: 8 layers, 0.2 billion parameters, bf16 on 8 x round
tensor 2, pipeline 4, data 1
16 microbatches of 1 x 2,048 tokens, 1f1b, recompute none

step 400.0 ms, four of five from 360 to 500 ms
10,240.0 tokens/s per device
11.8 model TFLOP/s per device, 11.8 % of the peak of 100.0 (bfloat16)

time of rank 2                 exposed ms    share  again ms  hidden ms
matrix products                     300.0   75.0 %      60.0        0.0
tensor-parallel communication        80.0   20.0 %       0.0       20.0
bubble                               20.0    5.0 %       0.0        0.0
step                                400.0  100.0 %
ranks wait 10.0 % of the step on average: 5.0 % on rank 2, 15.0 % on rank 0

memory in GB at its fullest moment
rank  param  MLP  loss  all  full%
   0    4.0  1.0   0.0  5.0   31.2
   1    3.0  1.0   0.0  4.0   25.0
   2    2.0  1.0   0.0  3.0   18.8
   3    1.0  1.0   0.5  2.5   15.6

memory: 5.0 of 16.0 GB on rank 0, 11.0 GB are free
it fits with a probability of >99 %, by published readings of memory

assumed: --recompute=none, --zero=1
the interval follows from 12 published runs of 3 sources (ampere, dense), see
docs/accuracy.md"""


def test_golden(prediction):
    setting = PredictionSetting(memory_limit_bytes=16 * GIGABYTE, assumed=("--recompute=none", "--zero=1"))
    assert predict_text(prediction, setting) == GOLDEN


@pytest.mark.parametrize(
    ("of", "sentence"),
    [
        (ALL, "the interval follows from 12 published runs of 3 sources (all kinds), see docs/accuracy.md"),
        ("dense", "the interval follows from 12 published runs of 3 sources (all dense models), see docs/accuracy.md"),
        (
            "experts",
            "the interval follows from 12 published runs of 3 sources (all models with experts), see docs/accuracy.md",
        ),
        (CALIBRATED, "the interval follows from the 12 runs of the calibration"),
    ],
)
def test_what_the_interval_follows_from(prediction, monkeypatch, of, sentence):
    error = ErrorRange(low=-0.1, high=0.1, runs=12, sources=3, of=of)
    monkeypatch.setattr(prediction_module, "expected_error", lambda *_: error)
    text = predict_text(prediction, PredictionSetting(memory_limit_bytes=0))
    assert " ".join(text.split()).endswith(sentence)


def test_many_ranks_are_three(prediction):
    sizes = [5.0] + [4.0 - 0.1 * rank for rank in range(22)] + [1.0]
    many = with_memory(prediction, memory(sizes[1], *sizes[:1], *sizes[2:]))
    lines = predict_text(many, PredictionSetting(memory_limit_bytes=16 * GIGABYTE)).splitlines()
    begin = next(index for index, line in enumerate(lines) if line.startswith("rank "))
    assert [line.split()[0] for line in lines[begin + 1 : begin + 4]] == ["0", "1", "23"]
    assert lines[begin + 4] == ""
    assert "the first, the fullest and the last of 24 ranks; --json has them all" in lines


@pytest.mark.parametrize(
    ("limit", "sentence"),
    [
        (0, "memory: 5.0 GB on rank 0; no limit is known (--memory)"),
        (5 * GIGABYTE, "memory: 5.0 of 5.0 GB on rank 0, 0.0 GB are free"),
        (4 * GIGABYTE, "memory: 5.0 GB on rank 0, 1.0 GB over the limit of 4.0 GB"),
        (5 * GIGABYTE - 1, "memory: 5.0 GB on rank 0, 0.1 GB over the limit of 5.0 GB"),
    ],
)
def test_the_limit(prediction, limit, sentence):
    assert sentence in predict_text(prediction, PredictionSetting(memory_limit_bytes=limit)).splitlines()


@pytest.mark.parametrize("longer", [0, 10**6])
def test_the_command_to_run_next_stands_alone(prediction, longer):
    pipeline_ns = prediction.simulation.makespan_ns
    following = NextPlan(command="evenflow plan layers.json --ranks 4", pipeline_ns=pipeline_ns + longer)
    lines = predict_text(prediction, PredictionSetting(memory_limit_bytes=0, next_plan=following)).splitlines()
    at = lines.index(following.command)
    assert f"of the step, the pipeline takes {pipeline_ns / 1e6:,.1f} ms" in lines[at - 2]
    assert lines[at - 1].endswith(":")
    assert ("with all links alike" in "\n".join(lines)) is bool(longer)


@pytest.mark.parametrize("language", ["en", CHINESE])
def test_no_line_is_wider_than_a_terminal(prediction, language):
    experts = Experts(count=128, active=8, ffn=1536)
    degrees = Degrees(tensor=2, pipeline=4, chunks=2, context=2, data=16, expert=32, expert_tensor=1)
    wide = predict(
        training(model=replace(LLAMA, experts=experts), degrees=degrees, global_batch=2048, recompute="select"),
        TOPOLOGY,
    )
    full = RankMemory(parts=dict.fromkeys(Held, 10 * GIGABYTE))
    options = tuple(f"--some-option-{number}=a-value" for number in range(9))
    setting = PredictionSetting(memory_limit_bytes=80 * GIGABYTE, assumed=options)
    many = with_memory(wide, (full,) * 128, step_ns=123456789e6)
    with speaking(language):
        text = predict_text(many, setting)
    assert max(display_width(line) for line in text.splitlines()) <= 80
    assert all(option in text for option in options)


def test_parts_that_no_rank_has_are_left_out(prediction):
    nothing = with_memory(
        prediction, tuple(RankMemory(parts={**one.parts, Held.EXPERTS: 0}) for one in prediction.memory)
    )
    text = predict_text(nothing, PredictionSetting(memory_limit_bytes=100 * MEGABYTE))
    assert "exp " not in text
    assert "MLP" in text
