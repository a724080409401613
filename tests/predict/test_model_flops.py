from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.predict.model_flops import model_flops
from evenflow.predict.training import Degrees, Software
from evenflow.predict.transformer import Experts, Transformer
from tests.predict.trainings import LLAMA, training

GPT3 = Transformer(
    hidden=12288, layers=96, heads=96, kv_heads=96, head_dim=128, ffn=4 * 12288, vocabulary=51200,
    gated=False, tied=True,
)  # fmt: skip


def test_gpt_has_the_operations_of_the_published_formula():
    """[Megatron-LM, arXiv:2104.04473, appendix]: 72 B s l h^2 (1 + s / 6h + V / 12lh) without recomputation."""
    h, s, layers, batch, words = 12288, 2048, 96, 1536, 51200
    published = 72 * batch * s * layers * h**2 * (1 + s / (6 * h) + words / (12 * layers * h))
    found = model_flops(training(model=GPT3, global_batch=batch, sequence=s))
    assert found == pytest.approx(published, rel=1e-9)


@given(
    tensor=st.sampled_from([1, 2, 4]),
    pipeline=st.sampled_from([1, 2, 8]),
    microbatch=st.sampled_from([1, 2, 4]),
    recompute=st.sampled_from(["none", "select", "full"]),
    is_fused=st.booleans(),
    skips=st.booleans(),
)
def test_how_a_model_is_split_and_run_does_not_matter(tensor, pipeline, microbatch, recompute, is_fused, skips):
    degrees = Degrees(tensor=tensor, pipeline=pipeline)
    software = Software(fused_attention=is_fused, skips_masked=skips)
    other = training(degrees=degrees, microbatch=microbatch, recompute=recompute, software=software)
    assert model_flops(other) == model_flops(training())


def test_only_active_experts_count():
    def flops(**changes):
        experts = Experts(**{"count": 8, "active": 2, "ffn": 512, **changes})
        return model_flops(training(model=replace(LLAMA, experts=experts)))

    router = 3 * 2 * LLAMA.hidden * 16 * 2048 * LLAMA.layers
    assert flops(count=16) - flops() == pytest.approx(8 * router)
    assert flops(capacity_factor=4.0) == flops()
    matrices = 3 * 2 * 3 * LLAMA.hidden * 512 * 16 * 2048 * LLAMA.layers
    assert flops(active=3) - flops() == pytest.approx(matrices)
