"""Layers of other parts than attention and an MLP: what they cost beside whole layers, and how that grows."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cluster.topology import Topology
from evenflow.model import FULL, NONE
from evenflow.predict.activations import layer_activations
from evenflow.predict.held import total
from evenflow.predict.layer_parts import StateMixer
from evenflow.predict.layer_work import layer_passes
from evenflow.predict.model_flops import model_flops
from evenflow.predict.parameters import layer_parameters
from evenflow.predict.pricing import priced
from evenflow.predict.step_network import priced_network
from evenflow.predict.training import Degrees, Training
from evenflow.predict.transformer import DENSE, LayerKind, LayersWithState, Transformer
from evenflow.predict.work import Exchange
from tests.predict.test_prediction import DEVICE

MIXER = StateMixer(
    name="mamba-2", heads=16, key_dim=64, value_dim=32, into=1200, out=512, channels=640, kernel=4, small=2000,
)  # fmt: skip
MODEL = Transformer(
    hidden=256, layers=6, heads=8, kv_heads=4, head_dim=32, ffn=1024, vocabulary=1000, gated=True,
    states=LayersWithState(mixer=MIXER, layers=(0, 1, 2), attention_layers=(2, 3, 4), bare_layers=(1, 4)),
)  # fmt: skip
ATTENTION, MLP = LayerKind(mlp=False), LayerKind(attention=False)
STATE, BOTH = LayerKind(attention=False, state=True), LayerKind(state=True)


def training(model: Transformer = MODEL, *, sequence: int = 1024, **degrees: int) -> Training:
    return Training(
        model=model,
        degrees=Degrees(**degrees),
        microbatch=1,
        global_batch=4 * degrees.get("data", 1),
        sequence=sequence,
    )


def test_kinds_follow_from_the_lists_of_layers() -> None:
    assert MODEL.kinds == (
        STATE, LayerKind(attention=False, state=True, mlp=False), BOTH, DENSE, ATTENTION, MLP
    )  # fmt: skip


@given(st.sampled_from([1, 2, 4]), st.sampled_from([128, 1024]), st.booleans())
def test_half_blocks_are_whole_ones_together(tensor: int, sequence: int, gated: bool) -> None:
    """Same operators, exchanges, parameters and activations, whichever way a block is told."""
    of = training(replace(MODEL, gated=gated), sequence=sequence, tensor=tensor)
    topology = Topology.of(DEVICE)
    whole, halves = layer_passes(of, DENSE), layer_passes(of, ATTENTION) + layer_passes(of, MLP)
    for one, two in ((whole.forward, halves.forward), (whole.backward, halves.backward)):
        # Norms and sums of a block are one entry there, and two here.
        assert priced(one, topology).total_ns == pytest.approx(priced(two, topology).total_ns, rel=1e-9)
    parts = layer_parameters(of, ATTENTION) + layer_parameters(of, MLP)
    assert layer_parameters(of, DENSE) == parts
    kept = [total(layer_activations(of, kind, kind=NONE)) for kind in (DENSE, ATTENTION, MLP)]
    assert kept[0] == sum(kept[1:])


def test_full_recomputation_keeps_the_input_of_every_kind() -> None:
    of = training()
    for kind in set(MODEL.kinds):
        assert total(layer_activations(of, kind, kind=FULL)) == 2 * 1024 * MODEL.hidden


@given(st.integers(1, 8))
def test_a_state_costs_by_the_token_and_attention_by_the_pair(times: int) -> None:
    def flops(kind: LayerKind, sequence: int) -> float:
        states = LayersWithState(
            mixer=MIXER,
            layers=tuple(range(6)) if kind.state else (),
            attention_layers=tuple(range(6)) if kind.attention else (),
        )
        of = training(replace(MODEL, states=states), sequence=sequence)
        return model_flops(of) / sequence

    assert flops(STATE, 512 * times) == pytest.approx(flops(STATE, 512))
    assert (times == 1) is (flops(DENSE, 512 * times) == pytest.approx(flops(DENSE, 512)))
    assert flops(BOTH, 512) > flops(DENSE, 512)


def test_what_a_delta_rule_adds() -> None:
    """Keys meet keys too, what they weigh is summed twice more, and the state is read once more."""
    plain = training()
    delta = training(replace(MODEL, states=replace(MODEL.states, mixer=replace(MIXER, delta=True))))
    more = [
        sum(work.flops for work in layer_passes(of, STATE).forward if not isinstance(work, Exchange))
        for of in (plain, delta)
    ]
    pairs = MIXER.chunk * (2 * MIXER.key_dim + MIXER.value_dim) + MIXER.key_dim * MIXER.value_dim
    assert more[1] - more[0] == pytest.approx(2 * 1024 * MIXER.heads * pairs)


@pytest.mark.parametrize("degrees", [{"tensor": 2}, {"tensor": 4}, {"context": 2}])
def test_tensor_and_context_parallelism_share_a_state_mixer_out(degrees: dict[str, int]) -> None:
    alone, shared = training(), training(**degrees)
    size = shared.degrees.tensor * shared.degrees.context
    of_mixer = LayerKind(attention=False, state=True, mlp=False)
    works = [work for work in layer_passes(shared, of_mixer).forward if not isinstance(work, Exchange)]
    before = [work for work in layer_passes(alone, of_mixer).forward if not isinstance(work, Exchange)]
    assert sum(work.flops for work in works) == pytest.approx(sum(work.flops for work in before) / size)
    assert any(isinstance(work, Exchange) for work in layer_passes(shared, of_mixer).forward)


def test_layers_are_named_by_what_is_special_about_them() -> None:
    network = priced_network(training(), Topology.of(DEVICE)).network
    assert [run.layer.name for run in network.runs] == [
        "dense, mamba-2", "mamba-2", "dense, mamba-2, attention", "dense", "attention", "MLP"
    ]  # fmt: skip
