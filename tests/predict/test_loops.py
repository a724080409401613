"""Layers that tokens go through several times: work and activations of every pass, weights once, in one stage."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow import plan
from evenflow.errors import InputError
from evenflow.model import Sizes
from evenflow.predict.activations import layer_activations, layer_working
from evenflow.predict.half_blocks import with_half_blocks
from evenflow.predict.held import total
from evenflow.predict.layer_parts import Addition, Loop
from evenflow.predict.layer_work import layer_passes
from evenflow.predict.model_flops import model_flops
from evenflow.predict.parameters import layer_parameters, model_parameters
from evenflow.predict.prediction import predict
from evenflow.predict.step.cells import dealt_evenly
from evenflow.predict.step_network import priced_network
from evenflow.predict.training import Degrees
from evenflow.predict.transformer import Experts
from tests.predict.trainings import LLAMA, TOPOLOGY, training
from tests.thoroughness import examples

MORE = Addition(name="messages", products=((1024, 64),), numbers=1024, after_first=True)


def looped(first=2, end=5, passes=3, unkept=0, **changes):
    return replace(LLAMA, loops=(Loop(first=first, end=end, passes=passes, unkept=unkept),), **changes)


@given(passes=st.integers(1, 5), unkept=st.integers(0, 4))
@settings(max_examples=examples(20), deadline=None)
def test_a_layer_works_and_keeps_for_every_pass(passes, unkept):
    job, plain = training(model=looped(passes=passes, unkept=unkept)), training()
    kind, once = job.model.kinds[3], LLAMA.kinds[3]
    many, single = layer_passes(job, kind), layer_passes(plain, once)
    assert many.forward == single.forward * passes
    assert many.unkept == single.forward * unkept
    assert many.backward == single.backward * passes
    assert layer_parameters(job, kind) == layer_parameters(plain, once)
    for name in ("none", "select", "full"):
        kept = total(layer_activations(job, kind, kind=name))
        assert kept == pytest.approx(passes * total(layer_activations(plain, once, kind=name)), abs=passes)
        assert layer_working(job, kind, kind=name) == layer_working(plain, once, kind=name)
    assert model_parameters(job.model) == model_parameters(LLAMA)


def test_passes_without_gradients_cost_a_third_of_the_others():
    def flops(**changes):
        return model_flops(training(model=looped(**changes)))

    of_pass = (flops(passes=4) - flops(passes=3)) / 3
    assert flops(passes=3, unkept=1) - flops(passes=3) == pytest.approx(of_pass)
    assert model_flops(training(model=looped(passes=1))) == model_flops(training())


def test_what_passes_behind_the_first_have_is_counted_for_these():
    model = looped(passes=3, additions=(MORE,))
    job, without = training(model=model), training(model=looped(passes=3))
    kind = model.kinds[3]
    works = layer_passes(job, kind).forward
    more = works[len(layer_passes(without, kind).forward) :]
    assert {work.module for work in more} == {"messages"}
    assert more[: len(more) // 2] == more[len(more) // 2 :]
    assert layer_passes(job, model.kinds[0]).forward == layer_passes(training(), LLAMA.kinds[0]).forward


def test_a_loop_is_in_one_stage():
    model = looped()
    network = priced_network(training(model=model), TOPOLOGY).network
    assert [layer.cut_before for layer in network.layers] == [True, True, True, False, False, True, True, True]
    rows = plan(network, num_ranks=3, num_microbatches=6, time_limit_s=5.0).plan.layers
    ends = [sum(rows[0][: rank + 1]) for rank in range(2)]
    assert not {3, 4} & set(ends)


@given(first=st.integers(0, 7), length=st.integers(1, 8), ranks=st.integers(1, 4), chunks=st.integers(1, 2))
@settings(max_examples=examples(40), deadline=None)
def test_layers_are_dealt_with_a_loop_as_one(first, length, ranks, chunks):
    end = min(8, first + length)
    model = looped(first=first, end=end)
    sizes = Sizes(num_ranks=ranks, num_chunks=chunks, num_microbatches=4)
    schedule = "interleaved" if chunks > 1 else "1f1b"
    dealt = dealt_evenly(model, sizes, schedule=schedule, allow_empty=True)
    in_order = [count for row in dealt for count in row]
    ends = [sum(in_order[: place + 1]) for place in range(len(in_order))]
    assert ends[-1] == 8
    assert not set(range(first + 1, end)) & set(ends)


def test_a_prediction_deals_them_so_too():
    prediction = predict(training(model=looped(), degrees=Degrees(pipeline=2)), TOPOLOGY)
    assert prediction.simulation.plan.layers == ((5, 3),)


def test_loops_in_each_other_stay_together():
    loops = (Loop(first=0, end=4, passes=3, unkept=3), Loop(first=4, end=8, passes=2, inner=True))
    model = replace(LLAMA, loops=loops)
    network = priced_network(training(model=model), TOPOLOGY).network
    assert [layer.cut_before for layer in network.layers] == [True] + [False] * 7
    with pytest.raises(InputError, match="frozen_layers must be at most 0 or at least 8"):
        replace(model, frozen_layers=5)


@pytest.mark.parametrize("frozen", [3, 4])
def test_a_loop_is_trained_as_a_whole_or_not_at_all(frozen):
    with pytest.raises(InputError, match="at most 2 or at least 5: tokens go through the layers between several times"):
        looped(frozen_layers=frozen)
    model = looped(frozen_layers=5, passes=2, unkept=1)
    works = layer_passes(training(model=model), model.kinds[2])
    assert works.backward == works.unkept == ()
    assert works.forward == layer_passes(training(), LLAMA.kinds[2]).forward * 3


def test_halves_of_its_blocks_stay_together_too():
    job = training(model=looped())
    network = priced_network(job, TOPOLOGY).network
    halves = with_half_blocks(job, TOPOLOGY, network).layers
    assert [layer.cut_before for layer in halves[4:10]] == [True, False, False, False, False, False]
    assert all(layer.cut_before for layer in (*halves[:4], *halves[10:]))


def test_exchanges_of_several_passes_are_no_halves():
    experts = Experts(count=8, active=2, ffn=512)
    job = training(model=looped(experts=experts), degrees=Degrees(tensor=1, pipeline=4, data=4, expert=4))
    layers = priced_network(job, TOPOLOGY).network.layers
    assert layers[0].halves is not None
    assert layers[2].halves is None
