"""Encoders apart from the pipeline: what each part of a step has is what the whole encoder has."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.predict.apart_tower import with_apart_tower
from evenflow.predict.layer_work import HALF
from evenflow.predict.parameters import embedding_parameters, head_parameters
from evenflow.predict.state import state_bytes
from evenflow.predict.step_network import priced_network
from evenflow.predict.training import Degrees, Sharding
from tests.predict.test_tower import HEARD, TAPPED, TOWER, training
from tests.predict.trainings import LLAMA, TOPOLOGY

RANKS = 4


@given(
    towers=st.sampled_from([(TOWER,), (TAPPED,), (HEARD,), (TAPPED, HEARD)]),
    frozen=st.booleans(),
    batch=st.sampled_from([16, 18, 64]),
)
def test_the_pipeline_is_that_of_a_text_alone_and_every_rank_holds_the_encoders(towers, frozen, batch):
    whole = training(*(replace(tower, frozen=frozen, patches=256) for tower in towers), global_batch=batch)
    text = priced_network(training(global_batch=batch), TOPOLOGY).network
    apart = with_apart_tower(whole, TOPOLOGY)
    assert apart.network.layers == text.layers
    assert apart.network.tail == text.tail
    assert (apart.network.head.forward_ns, apart.network.head.backward_ns) == (
        text.head.forward_ns,
        text.head.backward_ns,
    )
    tokens = sum(tower.tokens * (1 + len(tower.taps)) for tower in whole.model.towers)
    held = whole.microbatches * HALF * tokens * LLAMA.hidden
    assert apart.network.head.parameter_bytes - text.head.parameter_bytes == held
    plain = replace(whole, degrees=replace(whole.degrees, sharding=Sharding.NOTHING))
    encoder = state_bytes(plain, head_parameters(whole)) - state_bytes(plain, embedding_parameters(whole))
    constant = with_apart_tower(plain, TOPOLOGY).network.constant_bytes
    assert constant - priced_network(replace(plain, model=text_model(plain)), TOPOLOGY).network.constant_bytes == (
        pytest.approx(encoder, abs=2)
    )
    assert apart.network.constant_bytes <= constant, "ranks that are copies share out the optimizer"


def text_model(whole):
    return replace(whole.model, towers=())


@pytest.mark.parametrize("frozen", [False, True])
def test_its_times_are_those_of_its_share_of_the_images(frozen):
    """On one rank there are no messages: all of its forwards come before, all backwards behind, computed again."""
    tower = replace(TOWER, frozen=frozen, patches=256)
    one = training(tower, degrees=Degrees(pipeline=1))
    with_encoder, text = (
        priced_network(each, TOPOLOGY).network.head for each in (one, replace(one, model=text_model(one)))
    )
    forward_ns = with_encoder.forward_ns - text.forward_ns
    backward_ns = with_encoder.backward_ns - text.backward_ns
    apart = with_apart_tower(one, TOPOLOGY)
    assert apart.before_ns == pytest.approx(one.microbatches * forward_ns, abs=one.microbatches)
    if not frozen:
        again_ns = one.microbatches * (forward_ns + backward_ns)
        assert apart.behind_ns == pytest.approx(again_ns, abs=2 * one.microbatches)
    else:
        assert one.microbatches * backward_ns < apart.behind_ns < one.microbatches * (forward_ns + backward_ns)
    four = with_apart_tower(training(tower, degrees=Degrees(pipeline=RANKS)), TOPOLOGY)
    assert apart.before_ns / RANKS < four.before_ns < apart.before_ns
    assert apart.behind_ns / RANKS < four.behind_ns


def test_a_step_ends_with_its_fullest_rank():
    tower = replace(TOWER, inputs=1, patches=256)
    times = [
        with_apart_tower(training(tower, degrees=Degrees(pipeline=1, data=1), global_batch=batch), TOPOLOGY).before_ns
        for batch in (4, 8)
    ]
    assert times[1] == pytest.approx(2 * times[0], rel=1e-6)
    even, uneven = (
        with_apart_tower(training(tower, degrees=Degrees(pipeline=RANKS), global_batch=batch), TOPOLOGY)
        for batch in (8, 5)
    )
    assert uneven.before_ns > 0.9 * even.before_ns, "five images on four ranks take as long as eight, but for messages"


def test_two_encoders_run_one_after_the_other():
    one, other, both = (
        with_apart_tower(training(*(replace(tower, patches=256) for tower in towers)), TOPOLOGY)
        for towers in ((TAPPED,), (HEARD,), (TAPPED, HEARD))
    )
    assert both.before_ns == one.before_ns + other.before_ns
    assert both.behind_ns == one.behind_ns + other.behind_ns
