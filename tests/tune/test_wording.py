from dataclasses import replace

import pytest

from evenflow.model import FULL, SELECT, Plan
from evenflow.predict.training import Degrees
from evenflow.predict.transformer import Experts
from evenflow.tune.wording import recompute_words, split_words
from tests.predict.trainings import LLAMA, training


@pytest.mark.parametrize(
    ("recompute", "words"),
    [
        ({}, "none"),
        ({FULL: ((0, 0),)}, "none"),
        ({FULL: ((3, 1),)}, "full 4 of 8"),
        ({SELECT: ((4, 4),)}, "select"),
        ({SELECT: ((2, 3),), FULL: ((1, 0),)}, "select 5+full 1"),
    ],
)
def test_recomputation(recompute, words):
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=((4, 4),), recompute=recompute)
    assert recompute_words(plan) == words


def test_splits():
    assert split_words(training()) == "tensor 2, pipeline 4, data 1"
    mixture = replace(LLAMA, experts=Experts(count=8, active=2, ffn=1024))
    wide = training(model=mixture, degrees=Degrees(tensor=1, pipeline=2, chunks=2, context=2, data=2, expert=4))
    assert split_words(wide) == "tensor 1, pipeline 2 x 2, context 2, data 2, expert 4"
