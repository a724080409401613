"""Attention whose scores have those of distances beside those of tokens: its work, what it learns and what it keeps."""

from dataclasses import replace

import pytest

from evenflow.model import FULL, NONE
from evenflow.predict.activations import layer_activations
from evenflow.predict.held import total
from evenflow.predict.layer_work import layer_passes
from evenflow.predict.parameters import model_parameters
from evenflow.predict.training import Degrees, Software, Training
from evenflow.predict.transformer import DENSE, Transformer
from evenflow.predict.work import Operators
from tests.predict.trainings import training
from tests.profiles.transformer.small_configs import SMALL_CONFIGS
from tests.profiles.transformer.test_config_file import read

SEQUENCE, ITEM = 64, 2
BASE = {"model_type": "xlnet", "d_model": 768, "n_layer": 12, "n_head": 12, "d_inner": 3072, "vocab_size": 32000}
"""XLNet-Base. [arXiv:1906.08237, §3.1]"""


def of(model: Transformer, **software: bool) -> Training:
    return training(model=model, degrees=Degrees(), sequence=SEQUENCE, microbatch=1, software=Software(**software))


def flops(job: Training) -> tuple[float, float]:
    passes = layer_passes(job, DENSE)
    return tuple(
        sum(work.flops for work in works if isinstance(work, Operators)) for works in (passes.forward, passes.backward)
    )


@pytest.mark.parametrize("directions", ["bi", "uni"])
def test_queries_meet_keys_of_every_distance(directions: str) -> None:
    """Twice as many distances as tokens where tokens see both directions; half of the scores of tokens are skipped
    where they see one."""
    model = read({**BASE, "attn_type": directions}).model
    times = 2 if directions == "bi" else 1
    width, scores = 768, SEQUENCE * SEQUENCE * 768
    products = SEQUENCE * (width * width * (4 + times) + 2 * width * 3072)
    expected = 2 * (products + scores * (2 + times))
    assert flops(of(model, fused_attention=False)) == (expected, 2 * expected)
    skipped = 0 if directions == "bi" else 2 * scores
    assert flops(of(model))[0] == expected - skipped


def test_a_layer_learns_keys_of_distances_and_five_biases_of_queries() -> None:
    """The output layer has a bias, no norm is behind the last layer, and an embedding stands for what is predicted."""
    model = read(BASE).model
    layer = 5 * 768 * 768 + 5 * 768 + 2 * 768 * 3072 + 3072 + 768 + 4 * 768
    assert 12 * layer + 768 * 32_001 + 32_000 == model_parameters(model)


def test_scores_of_distances_are_kept_as_a_bias_unless_scores_are_computed_again() -> None:
    model = read(BASE).model
    plain = replace(model, distances=0)
    scores = ITEM * 12 * SEQUENCE * SEQUENCE
    kept = [total(layer_activations(of(one), DENSE, kind=NONE)) for one in (model, plain)]
    assert kept[0] - kept[1] == scores
    again = [
        total(layer_activations(replace(of(one), recompute_modules=("core_attn",)), DENSE, kind="select"))
        for one in (model, plain)
    ]
    assert again[0] == again[1]
    assert total(layer_activations(of(model), DENSE, kind=FULL)) == ITEM * SEQUENCE * 768


def test_what_is_taken_for_granted_is_said() -> None:
    notes = " ".join(read(SMALL_CONFIGS["xlnet"]).notes)
    assert "tokens are taken to be trained in one stream" in notes
