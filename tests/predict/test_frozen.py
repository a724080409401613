"""Layers that are not trained, and adapters: what passes, memory and steps lose."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.predict.layer_work import layer_passes
from evenflow.predict.parameters import head_parameters, layer_parameters, model_parameters, tail_parameters
from evenflow.predict.state import state_bytes
from evenflow.predict.training import Degrees, Sharding, Training
from evenflow.predict.transformer import Experts, Transformer
from evenflow.predict.work import Operators, Spent

DENSE = Transformer(
    hidden=512, layers=8, heads=8, kv_heads=4, head_dim=64, ffn=1024, vocabulary=1000, gated=True, name="small"
)
MIXTURE = replace(DENSE, experts=Experts(count=8, active=2, ffn=256, shared_ffn=256))
RANK = 16


def training(model, **degrees):
    return Training(
        model=model, degrees=Degrees(**{"sharding": Sharding.NOTHING, **degrees}), microbatch=1, global_batch=8,
        sequence=256,
    )  # fmt: skip


def products(works):
    return sum(work.flops for work in works if isinstance(work, Operators) and work.spent is Spent.PRODUCTS)


@pytest.mark.parametrize("model", [DENSE, MIXTURE])
def test_a_frozen_layer_has_a_forward_and_weights_alone(model):
    frozen = replace(model, frozen_layers=3)
    job, plain = training(frozen), training(model)
    kinds = frozen.kinds
    assert [kind.frozen for kind in kinds] == [True] * 3 + [False] * 5
    assert layer_passes(job, kinds[0]).forward == layer_passes(plain, model.kinds[0]).forward
    assert layer_passes(job, kinds[0]).backward == ()
    own = layer_parameters(plain, model.kinds[0])
    assert layer_parameters(job, kinds[0]) == own.as_frozen()
    assert state_bytes(job, own.as_frozen()) == round(2 * (own.dense + own.expert))
    assert head_parameters(job).dense == 0
    assert tail_parameters(job, has_embedding=False) == tail_parameters(plain, has_embedding=False)
    assert layer_passes(job, kinds[3]) == layer_passes(plain, model.kinds[3])
    assert model_parameters(frozen) == model_parameters(model)


def test_adapters_are_two_narrow_matrices_beside_every_product():
    """Queries, keys and values in one product of 512 x 1024, 512 x 512 out of attention, the gated MLP's of 512 x 2048
    and 1024 x 512: each has its width and its depth times the rank.
    """
    job = training(replace(DENSE, adapter_rank=RANK))
    own = layer_parameters(job, job.model.kinds[0])
    assert own.dense == RANK * (512 + 1024 + 512 + 512 + 512 + 2048 + 1024 + 512)
    assert own.frozen == layer_parameters(training(DENSE), DENSE.kinds[0]).dense
    assert tail_parameters(job, has_embedding=False).dense == 0
    assert state_bytes(job, own) == round(2 * own.frozen + 18 * own.dense)


def test_every_expert_has_adapters_and_the_router_has_none():
    job = training(replace(MIXTURE, adapter_rank=RANK))
    own = layer_parameters(job, job.model.kinds[0])
    of_attention = RANK * (512 + 1024 + 512 + 512)
    of_expert = RANK * (512 + 512 + 256 + 512)
    assert own.dense == of_attention + (MIXTURE.experts.count + 1) * of_expert


def test_with_adapters_a_backward_has_no_gradients_of_weights():
    plain, adapted = (layer_passes(training(model), model.kinds[0]) for model in (
        DENSE, replace(DENSE, adapter_rank=RANK)
    ))  # fmt: skip
    more = products(adapted.forward) - products(plain.forward)
    assert more > 0
    assert products(adapted.backward) == pytest.approx(products(plain.backward) / 2 + 2 * more)


@given(frozen=st.integers(0, 7), rank=st.sampled_from([0, 8]), sharding=st.sampled_from(list(Sharding)))
def test_what_is_not_trained_never_makes_a_device_hold_more(frozen, rank, sharding):
    job = training(replace(DENSE, frozen_layers=frozen, adapter_rank=rank), data=4, sharding=sharding)
    plain = training(DENSE, data=4, sharding=sharding)
    for kind, whole in zip(job.model.kinds, DENSE.kinds, strict=True):
        assert state_bytes(job, layer_parameters(job, kind)) <= state_bytes(plain, layer_parameters(plain, whole))


def test_all_layers_frozen_are_refused():
    with pytest.raises(InputError, match="frozen_layers must be fewer than the 8 layers"):
        replace(DENSE, frozen_layers=8)
