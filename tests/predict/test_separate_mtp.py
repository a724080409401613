"""Blocks that predict further tokens as layers of their own: nothing is lost, and nothing counted twice."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from evenflow.baselines.even_plan import even_plan
from evenflow.model import NONE, Sizes
from evenflow.predict.separate_mtp import with_separate_mtp
from evenflow.predict.step_network import priced_network
from evenflow.predict.training import Degrees, Software, Training
from evenflow.predict.transformer import Experts
from evenflow.simulate import simulate
from evenflow.targets.further_tokens import with_mtp_last
from tests.predict.trainings import LLAMA, TOPOLOGY

EXPERTS = Experts(count=8, active=2, ffn=512, shared_ffn=512, dense_layers=2, capacity_factor=1.5)


@st.composite
def trainings(draw: st.DrawFn) -> Training:
    experts = draw(st.sampled_from([None, EXPERTS]))
    return Training(
        model=replace(LLAMA, experts=experts, predicted_tokens=draw(st.integers(1, 3)), tied=draw(st.booleans())),
        degrees=Degrees(
            tensor=draw(st.sampled_from([1, 2])), pipeline=4, data=draw(st.sampled_from([1, 4])),
            sequence_parallel=draw(st.booleans()),
        ),
        microbatch=draw(st.sampled_from([1, 2])),
        global_batch=64,
        sequence=2048,
        schedule=draw(st.sampled_from([None, "f-then-b"])),
        software=draw(st.sampled_from([Software(), Software(captured_graphs=True, fused_loss=False)])),
    )  # fmt: skip


@given(trainings())
def test_in_the_last_stage_they_cost_what_they_cost_in_the_tail(training):
    together = priced_network(training, TOPOLOGY).network
    separate = with_separate_mtp(training, TOPOLOGY, together)
    depth = training.model.predicted_tokens
    assert separate.mtp_layers == depth
    assert separate.num_layers == together.num_layers + depth
    further = separate.layers[-depth:]
    assert abs(sum(layer.forward_ns for layer in further) + separate.tail.forward_ns - together.tail.forward_ns) <= 4
    assert abs(sum(layer.backward_ns for layer in further) + separate.tail.backward_ns - together.tail.backward_ns) <= 4
    kept = sum(layer.modes[NONE].activation_bytes for layer in further) + separate.tail.activation_bytes
    assert abs(kept - together.tail.activation_bytes) <= 4
    parameters = sum(layer.parameter_bytes for layer in further) + separate.tail.parameter_bytes
    if not training.model.tied:  # else the tail's table is the copy that only this stage would not need
        assert abs(parameters - together.tail.parameter_bytes) <= 4
    else:
        assert parameters > together.tail.parameter_bytes

    sizes = Sizes(num_ranks=4, num_chunks=1, num_microbatches=8)
    plan = even_plan(together, sizes, schedule="1f1b", recompute=NONE)
    before, after = simulate(together, plan), simulate(separate, with_mtp_last(plan, depth))
    assert abs(before.makespan_ns - after.makespan_ns) <= 4 * 2 * 8
    assert before.peak_memory_bytes[:3] == after.peak_memory_bytes[:3]


@given(trainings())
def test_they_stay_in_one_stage_and_the_first_has_the_embedding(training):
    first, *others = with_separate_mtp(training, TOPOLOGY, priced_network(training, TOPOLOGY).network).layers[
        -training.model.predicted_tokens :
    ]
    assert first.cut_before
    assert not any(layer.cut_before for layer in others)
    assert all(layer.parameter_bytes < first.parameter_bytes for layer in others)


def test_a_model_without_them_stays_as_it_is():
    training = Training(model=LLAMA, degrees=Degrees(pipeline=4), microbatch=1, global_batch=64, sequence=2048)
    network = priced_network(training, TOPOLOGY).network
    assert with_separate_mtp(training, TOPOLOGY, network) is network
