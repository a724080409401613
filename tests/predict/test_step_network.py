"""Networks that share passes are those of trainings priced by themselves."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from evenflow.model import FULL, NONE, SELECT
from evenflow.predict.held import Held
from evenflow.predict.layer_tensors import layer_tensors
from evenflow.predict.step_network import PassesKnown, priced_network
from evenflow.predict.training import Degrees, Sharding, Software, Training
from evenflow.predict.transformer import Experts, LatentAttention, Transformer
from tests.predict.trainings import LLAMA, TOPOLOGY

EXPERTS = Experts(count=8, active=2, ffn=512, shared_ffn=512, dense_layers=2, capacity_factor=1.5)
LATENT = LatentAttention(query_rank=256, key_value_rank=128, rotary_dim=64, plain_dim=128, value_dim=128)
MODELS: list[Transformer] = [
    LLAMA,
    replace(LLAMA, experts=EXPERTS, predicted_tokens=1),
    replace(LLAMA, latent=LATENT, tied=True),
    replace(LLAMA, window=256, unwindowed_layers=(1, 3)),
]
KNOWN: PassesKnown = {}


@given(st.data())
def test_shared_passes_change_nothing(data: st.DataObject) -> None:
    def one_of(*values: int) -> int:
        return data.draw(st.sampled_from(values))

    pipeline = one_of(1, 2, 4)
    degrees = Degrees(
        tensor=one_of(1, 2, 4), pipeline=pipeline, context=one_of(1, 2), data=one_of(1, 2, 8), expert=one_of(1, 2, 4),
        expert_tensor=data.draw(st.sampled_from([None, 1, 2])), data_outermost=data.draw(st.booleans()),
        sharding=data.draw(st.sampled_from(Sharding)),
    )  # fmt: skip
    training = Training(
        model=data.draw(st.sampled_from(MODELS)),
        degrees=degrees,
        microbatch=one_of(1, 2),
        global_batch=64,
        sequence=2048,
        schedule=data.draw(st.sampled_from([None, "f-then-b"])) if pipeline > 1 else None,
        software=data.draw(st.sampled_from([Software(), Software(captured_graphs=True, overlaps_tensor=True)])),
    )
    alone, shared = priced_network(training, TOPOLOGY), priced_network(training, TOPOLOGY, known=KNOWN)
    assert shared == alone


def test_copies_of_the_model_share_passes_and_microbatches_do_not() -> None:
    known: PassesKnown = {}
    for data, microbatch in ((1, 1), (2, 1), (4, 1), (4, 2)):
        training = Training(
            model=LLAMA, degrees=Degrees(data=data), microbatch=microbatch, global_batch=16, sequence=2048
        )
        priced_network(training, TOPOLOGY, known=known)
    assert len(known) == 2


def test_weight_gradients_of_experts_are_a_part_of_their_backward() -> None:
    model = replace(LLAMA, experts=EXPERTS)
    training = Training(
        model=model, degrees=Degrees(data=2, expert=2), microbatch=1, global_batch=16, sequence=2048
    )  # fmt: skip
    trained = priced_network(training, TOPOLOGY).network
    halves = trained.layers[-1].halves
    assert halves is not None
    backward = halves.backward
    # Two products of equal size for each of the forward, beside which memory is moved; none of the forward's.
    assert 0.3 * backward.mlp_ns < backward.mlp_weight_ns < 0.5 * backward.mlp_ns
    assert halves.forward.mlp_weight_ns == 0
    assert trained.delays_weights
    frozen = replace(training, model=replace(model, adapter_rank=8))
    assert not priced_network(frozen, TOPOLOGY).network.delays_weights


def test_what_experts_keep_of_what_they_compute_is_known_apart():
    """Without router, shared experts and the tokens that were sent; less where experts compute something again."""
    model = replace(LLAMA, experts=EXPERTS)
    training = Training(
        model=model, degrees=Degrees(data=2, expert=2), microbatch=1, global_batch=16, sequence=2048
    )  # fmt: skip
    layer, kind = priced_network(training, TOPOLOGY).network.layers[-1], model.kinds[-1]
    every = [tensor for tensor in layer_tensors(training, kind) if tensor.held is Held.EXPERTS]
    plain = [tensor for tensor in every if tensor.module != "shared_experts"]
    assert len(plain) < len(every)
    apart = [tensor for tensor in plain if tensor.name in ("router", "tokens of the experts")]
    assert len(apart) == 2
    kept = sum(tensor.size_bytes for tensor in plain) - sum(tensor.size_bytes for tensor in apart)
    assert layer.modes[NONE].mlp_bytes == round(kept) > 0
    assert layer.modes[FULL].mlp_bytes == 0
    chosen = replace(training, recompute="select", recompute_modules=("moe_act",))
    assert 0 < priced_network(chosen, TOPOLOGY).network.layers[-1].modes[SELECT].mlp_bytes < kept
    alone = replace(training, degrees=Degrees(data=2))  # nothing is exchanged, so nothing pairs
    assert priced_network(alone, TOPOLOGY).network.layers[-1].modes[NONE].mlp_bytes == 0
