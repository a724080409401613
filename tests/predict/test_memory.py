"""The memory of ranks: its parts against the simulator's peak, and a model against its measurement."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cluster.data_sheets import accelerator_named
from evenflow.cluster.topology import Topology
from evenflow.predict.held import Held
from evenflow.predict.memory import RankMemory, constant_bytes
from evenflow.predict.prediction import predict
from evenflow.predict.training import Degrees, Sharding, Software, Training
from evenflow.predict.transformer import EVERY_BIAS, Experts, LatentAttention, Transformer


def transformer(**changes: object) -> Transformer:
    values: dict[str, object] = {
        "hidden": 512, "layers": 8, "heads": 8, "kv_heads": 8, "head_dim": 64, "ffn": 2048, "vocabulary": 50_257,
        "gated": False,
    }  # fmt: skip
    return Transformer(**{**values, **changes})  # type: ignore[arg-type]


EXPERTS = Experts(count=8, active=2, ffn=256, shared_ffn=128, dense_layers=1)
LATENT = LatentAttention(query_rank=96, key_value_rank=64, rotary_dim=16, plain_dim=32, value_dim=32)


@st.composite
def trainings(draw: st.DrawFn) -> Training:
    """Trainings of small models: kinds of attention and MLP, degrees, sharding, recompute, precision."""
    model = transformer(
        layers=draw(st.sampled_from([4, 8])),
        gated=draw(st.booleans()),
        kv_heads=draw(st.sampled_from([2, 8])),
        dropout=draw(st.booleans()),
        tied=draw(st.booleans()),
        experts=draw(st.sampled_from([None, EXPERTS])),
        latent=draw(st.sampled_from([None, LATENT])),
        predicted_tokens=draw(st.integers(0, 1)),
    )
    pipeline, chunks = draw(st.sampled_from([(1, 1), (2, 1), (4, 1), (2, 2)]))
    degrees = Degrees(
        tensor=draw(st.sampled_from([1, 2])),
        pipeline=pipeline,
        chunks=chunks,
        data=draw(st.sampled_from([1, 4])),
        sequence_parallel=draw(st.booleans()),
        sharding=draw(st.sampled_from(list(Sharding))),
    )
    schedule = draw(st.sampled_from(["1f1b", "gpipe", "zb-h1"])) if chunks == 1 else None
    return Training(
        model=model,
        degrees=degrees,
        microbatch=draw(st.sampled_from([1, 3])),
        global_batch=96,
        sequence=256,
        precision=draw(st.sampled_from(["bf16", "fp16", "fp8", "fp32"])),
        schedule=schedule,
        recompute=draw(st.sampled_from(["none", "select", "full"])),
        recompute_modules=draw(st.sampled_from([("core_attn",), ("layernorm", "moe_act"), ("mlp", "moe")])),
        software=Software(fused_attention=draw(st.booleans()), gradient_bytes=draw(st.sampled_from([2, 4]))),
    )


@given(trainings())
def test_the_parts_of_every_rank_add_up_to_its_peak(training: Training) -> None:
    accelerator = accelerator_named("h100")
    found = predict(training, Topology(accelerator=accelerator, domain_devices=8))
    peaks = found.simulation.peak_memory_bytes
    assert [memory.allocated_bytes for memory in found.memory] == list(peaks)
    assert all(size >= 0 for memory in found.memory for size in memory.parts.values())
    assert min(peaks) > constant_bytes(training, accelerator)


@given(trainings(), st.integers(1, 3), st.one_of(st.none(), st.integers(0, 3)))
def test_the_parts_add_up_for_any_layout_and_number_of_recomputed_layers(
    training: Training, first: int, recomputed: int | None
) -> None:
    model = replace(training.model, layers=4)
    degrees = replace(training.degrees, pipeline=2, chunks=1)
    running = replace(training, model=model, degrees=degrees, layout=((first, 4 - first),), recompute="full")
    running = replace(running, full_layers=recomputed)
    found = predict(running, Topology(accelerator=accelerator_named("a100"), domain_devices=8))
    assert [memory.allocated_bytes for memory in found.memory] == list(found.simulation.peak_memory_bytes)


def test_megatron_counts_as_much_as_is_predicted_for_a_model_of_seven_billion() -> None:
    """53.2193 GiB on H100, 54.1919 GiB on A100, whose attention takes the batch first.

    [NVIDIA/Megatron-LM, tests/functional_tests/test_cases/gpt/gpt3_7b_tp4_pp1_memory_speed]
    """
    model = transformer(
        hidden=4096, layers=32, heads=32, kv_heads=8, head_dim=128, ffn=16_384, vocabulary=131_073, positions=8192,
        biases=EVERY_BIAS, dropout=True,
    )  # fmt: skip
    degrees = Degrees(tensor=4, data=2, sequence_parallel=False, sharding=Sharding.OPTIMIZER)
    training = Training(model=model, degrees=degrees, microbatch=2, global_batch=8, sequence=8192)
    for name, batch_first, measured_gib in (("h100", False, 53.2193), ("a100", True, 54.19191)):
        running = replace(training, software=Software(transposes_attention=batch_first))
        found = predict(running, Topology(accelerator=accelerator_named(name), domain_devices=8))
        assert found.memory[0].allocated_bytes / 2**30 == pytest.approx(measured_gib, rel=0.005)


def test_a_device_shows_more_than_all_parts() -> None:
    memory = RankMemory(parts={Held.PARAMETERS: 1000, Held.RESERVE: 50, Held.DRIVER: 400})
    assert memory.allocated_bytes == 1000
    assert memory.needed_bytes == 1050
    assert memory.total_bytes == 1050 + 400
    assert memory.reserved_bytes == 1050 + 120
    assert memory.device_bytes == 1050 + 120 + 400


def test_exchanges_under_products_take_buffers_for_all_tokens() -> None:
    accelerator = accelerator_named("h100")
    degrees = Degrees(tensor=2)
    plain = Training(model=transformer(), degrees=degrees, microbatch=2, global_batch=2, sequence=256)
    overlapped = replace(plain, software=Software(overlaps_tensor=True))
    more = constant_bytes(overlapped, accelerator) - constant_bytes(plain, accelerator)
    assert more == 10 * 2 * (2 * 256) * 512 + 2 * 32 * 2**20
    alone = replace(overlapped, degrees=Degrees())
    assert constant_bytes(alone, accelerator) == constant_bytes(replace(plain, degrees=Degrees()), accelerator)
