"""What no configuration can have is refused; whatever passes leaves configurations or a reason for each."""

from dataclasses import replace

import pytest

from evenflow.errors import InputError
from evenflow.model import Abilities
from evenflow.predict.transformer import Experts
from evenflow.tune.axes import Axis
from evenflow.tune.limits import check_question
from evenflow.tune.space import one_rank_schedules, space_of
from tests.predict.trainings import LLAMA
from tests.tune.rankings import QUESTION


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"devices": 0}, "devices must be an integer from 1"),
        ({"global_batch": 0}, "global_batch must be an integer from 1"),
        ({"precision": "int3"}, "precision"),
        ({"schedules": ()}, "schedules must name a schedule"),
        (
            {"schedules": ("1f1b-overlap",)},
            "schedules must run one action after the other: small has no experts to exchange tokens",
        ),
        ({"schedules": ("1f1",)}, "did you mean '1f1b'?"),
        ({"fixed": {Axis.TENSOR: 3}}, "fixed: tensor must divide the 8 devices, got 3"),
        ({"fixed": {Axis.EXPERT_TENSOR: 2}}, "fixed: expert-tensor must be 1 for a model without experts"),
        ({"fixed": {Axis.DATA: 2, Axis.PIPELINE: 8}}, "devices must be a multiple of pipeline x data = 16, got 8"),
        (
            {"devices": 16, "fixed": {Axis.PIPELINE: 16}, "allow_empty": False},
            "fixed: pipeline must be at most the 8 layers",
        ),
        ({"fixed": {Axis.DATA: 8, Axis.MICROBATCH: 4}}, "global_batch must be a multiple of data x microbatch = 32"),
        ({"fixed": {Axis.CHUNKS: 7, Axis.SCHEDULE: "1f1b"}}, "fixed: chunks must be 1 for schedule 1f1b, got 7"),
        ({"fixed": {Axis.CHUNKS: 2, Axis.PIPELINE: 1}}, "fixed: chunks must be 1 without pipeline parallelism"),
        ({"fixed": {Axis.CHUNKS: 3, Axis.PIPELINE: 4}}, "fixed: chunks must be at most 2, so that every model chunk"),
        ({"fixed": {Axis.ZERO: "5"}}, "fixed: zero must be one of 0, 1, 2, 3"),
        ({"fixed": {Axis.CONTEXT: True}}, "fixed: context must be an integer"),
        (
            {"model": replace(LLAMA, layers=1), "schedules": ("zbv", "interleaved")},
            "schedules must have a schedule for 1 layer: every rank of zbv has 2 chunks, each with a layer, got "
            "'zbv, interleaved'; add 1f1b",
        ),
        ({"most": {Axis.TENSOR: -1}}, "most: tensor must be an integer from 1"),
        ({"most": {Axis.SCHEDULE: 1}}, "must be one of tensor, context"),
    ],
)
def test_what_cannot_be(changes, message):
    with pytest.raises(InputError) as caught:
        check_question(replace(QUESTION, **changes))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("axis", "value"),
    [
        (Axis.TENSOR, 4), (Axis.CONTEXT, 4), (Axis.PIPELINE, 4), (Axis.DATA, 2), (Axis.CHUNKS, 2),
        (Axis.MICROBATCH, 4), (Axis.ZERO, 3), (Axis.SCHEDULE, "1f1b"),
    ],
)  # fmt: skip
def test_what_is_fixed_is_in_every_configuration(axis, value):
    from evenflow.tune.axes import value_of

    question = replace(QUESTION, fixed={axis: value}, most={})
    check_question(question)
    legal = space_of(question).legal
    assert legal
    assert {str(value_of(training, axis)) for training in legal} == {str(value)}


def test_a_fixed_value_may_be_above_what_is_usual():
    question = replace(QUESTION, fixed={Axis.CHUNKS: 1, Axis.MICROBATCH: 16, Axis.CONTEXT: 4}, most={})
    legal = space_of(replace(question, global_batch=16)).legal
    assert {training.degrees.context for training in legal} == {4}


def test_every_cell_of_a_legal_configuration_has_a_layer():
    question = replace(QUESTION, devices=8, schedules=("interleaved", "zbv", "dualpipe-v"), most={}, allow_empty=False)
    legal = space_of(question).legal
    assert 4 in {training.degrees.pipeline for training in legal}
    assert all(min(map(min, training.layout)) >= 1 for training in legal if training.layout)


@pytest.mark.parametrize("devices", [37, 24, 100])
def test_a_batch_that_cannot_be_split_is_a_rule_that_is_counted(devices):
    question = replace(QUESTION, devices=devices, global_batch=1, fixed={Axis.TENSOR: 1, Axis.CONTEXT: 1}, most={})
    space = space_of(question)
    assert "global_batch" in space.reasons
    assert space.excluded["global_batch"] >= 1


def test_a_fixed_microbatch_is_in_every_combination_or_a_rule_is_counted():
    question = replace(QUESTION, devices=8, global_batch=8, fixed={Axis.MICROBATCH: 4}, most={})
    space = space_of(question)
    assert space.legal
    assert {training.microbatch for training in space.legal} == {4}
    assert "global_batch" in space.reasons  # eight copies of the model have one sequence each


def test_a_schedule_for_equal_chunks_alone_is_refused() -> None:
    """Bounds on degrees are those of any cut; without a pipeline a framework has pairs where it names that schedule."""
    abilities = Abilities(schedules=("1f1b", "interleaved"), equal_pairs="interleaved-overlap", recomputation=())
    model = replace(LLAMA, experts=Experts(count=8, active=2, ffn=512))
    question = replace(
        QUESTION, model=model, abilities=abilities, title="it", schedules=("1f1b", "interleaved-overlap")
    )
    with pytest.raises(InputError, match="schedules must be a schedule for any cut: it has this one where all chunks"):
        check_question(question)
    assert one_rank_schedules(question) == ("1f1b",)
    assert one_rank_schedules(replace(question, abilities=None)) == ("1f1b", "1f1b-overlap")
