"""Encoders apart from the pipeline: what each part of a step has is what the whole encoder has."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.predict.apart_tower import with_apart_tower
from evenflow.predict.parameters import embedding_parameters, head_parameters
from evenflow.predict.passes import HALF
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
    apart = with_apart_tower(whole, TOPOLOGY, in_bubbles=False)
    assert apart.layers == text.layers
    assert apart.tail == text.tail
    assert (apart.head.forward_ns, apart.head.backward_ns) == (text.head.forward_ns, text.head.backward_ns)
    tokens = sum(tower.tokens * (1 + len(tower.taps)) for tower in whole.model.towers)
    held = whole.microbatches * HALF * tokens * LLAMA.hidden
    assert apart.head.parameter_bytes - text.head.parameter_bytes == held
    plain = replace(whole, degrees=replace(whole.degrees, sharding=Sharding.NOTHING))
    encoder = state_bytes(plain, head_parameters(whole)) - state_bytes(plain, embedding_parameters(whole))
    constant = with_apart_tower(plain, TOPOLOGY, in_bubbles=False).constant_bytes
    more = constant - priced_network(replace(plain, model=text_model(plain)), TOPOLOGY).network.constant_bytes
    if frozen:
        assert more > encoder, "projectors keep their inputs"
    else:
        assert more == pytest.approx(encoder, abs=2)
    assert apart.constant_bytes <= constant, "ranks that are copies share out the optimizer"


def text_model(whole):
    return replace(whole.model, towers=())


def work_of(whole, *, in_bubbles=False):
    work = with_apart_tower(whole, TOPOLOGY, in_bubbles=in_bubbles).encoder_work
    assert work is not None
    return work


@pytest.mark.parametrize("frozen", [False, True])
def test_its_times_are_those_of_the_images_of_a_microbatch(frozen):
    """In equal parts, each computed again for its backward; on one rank there are no messages."""
    tower = replace(TOWER, frozen=frozen, patches=256)
    alone = training(tower, degrees=Degrees(pipeline=1))
    with_encoder, text = (
        priced_network(each, TOPOLOGY).network.head for each in (alone, replace(alone, model=text_model(alone)))
    )
    forward_ns = with_encoder.forward_ns - text.forward_ns
    backward_ns = with_encoder.backward_ns - text.backward_ns
    work = work_of(alone)
    assert work.parts == alone.microbatch * tower.inputs
    assert work.parts * work.forward_ns == pytest.approx(forward_ns, abs=work.parts)
    again_ns = work.parts * work.backward_ns
    if not frozen:
        assert again_ns == pytest.approx(forward_ns + backward_ns, abs=2 * work.parts)
    else:
        assert backward_ns < again_ns < forward_ns + backward_ns
    assert (work.message_ns, work.summed_ns) == (0, 0)
    spread = work_of(training(tower, degrees=Degrees(pipeline=RANKS)))
    assert (spread.forward_ns, spread.backward_ns) == (work.forward_ns, work.backward_ns)
    assert min(spread.message_ns, spread.summed_ns) > 0


def test_two_encoders_have_parts_that_divide_the_inputs_of_both():
    towers = [replace(TAPPED, inputs=6, patches=256), replace(HEARD, inputs=4, patches=256)]
    first, second, both = (work_of(training(*chosen)) for chosen in (towers[:1], towers[1:], towers))
    microbatch = training().microbatch
    assert [work.parts for work in (first, second, both)] == [microbatch * count for count in (6, 4, 2)]
    assert both.forward_ns == pytest.approx(3 * first.forward_ns + 2 * second.forward_ns, abs=5)
    assert both.backward_ns == pytest.approx(3 * first.backward_ns + 2 * second.backward_ns, abs=5)


@pytest.mark.parametrize("frozen", [False, True])
def test_what_is_at_work_beside_a_pipeline_has_memory(frozen):
    whole = training(replace(TOWER, frozen=frozen, patches=256))
    apart, inside = (with_apart_tower(whole, TOPOLOGY, in_bubbles=in_bubbles) for in_bubbles in (False, True))
    assert inside.encoder_work == replace(apart.encoder_work, in_bubbles=True)
    more = inside.constant_bytes - apart.constant_bytes
    assert (more == 0) if frozen else (more > 0), "blocks that are not trained keep nothing of a part"
