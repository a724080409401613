"""Tensors that wait for the backward: against published formulas, and against a layer that was traced."""

import csv
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cluster.data_sheets import accelerator_named
from evenflow.cluster.dtypes import Dtype
from evenflow.cluster.topology import Topology
from evenflow.fields import as_fields
from evenflow.model import FULL, SELECT
from evenflow.predict.activations import layer_activations, layer_working
from evenflow.predict.held import Held, total
from evenflow.predict.layer_tensors import layer_tensors
from evenflow.predict.parameters import layer_parameters
from evenflow.predict.state import state_bytes
from evenflow.predict.step_network import priced_network
from evenflow.predict.training import PRODUCTS, Degrees, Sharding, Software, Training
from evenflow.predict.transformer import DENSE, WITH_EXPERTS, Experts, LatentAttention, Norms, Transformer
from evenflow_torch.models.part_trace import trace
from evenflow_torch.models.training_row import read_decoder
from tests.paths import ROOT
from tests.predict.test_memory import trainings, transformer
from tests_torch.models.layers import llama_config

FORMULAS = ROOT / "benchmarks" / "published" / "memory_formulas.csv"
GIB = 2**30


def formulas() -> list[dict[str, str]]:
    with FORMULAS.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def published(row: dict[str, str]) -> Training:
    """The training of a row of the figures of arXiv:2205.05198: GPT, unfused attention, dropout."""
    hidden, heads = int(row["hidden"]), int(row["heads"])
    model = Transformer(
        hidden=hidden, layers=int(row["layers"]), heads=heads, kv_heads=heads, head_dim=hidden // heads, ffn=4 * hidden,
        vocabulary=51_200, gated=False, dropout=True, norms=Norms(learned=False),
    )  # fmt: skip
    degrees = Degrees(
        tensor=int(row["tp"]), pipeline=int(row["pp"]), chunks=int(row["vpp"]), sharding=Sharding.NOTHING,
        sequence_parallel="seq" in row["mode"],
    )  # fmt: skip
    return Training(
        model=model, degrees=degrees, microbatch=int(row["mbs"]), global_batch=int(row["gbs"]),
        sequence=int(row["seq"]), recompute_modules=("core_attn",), software=Software(fused_attention=False),
    )  # fmt: skip


@pytest.mark.parametrize("row", formulas(), ids=lambda row: row["id"])
def test_layers_keep_what_the_published_formulas_say(row: dict[str, str]) -> None:
    training = published(row)
    degrees = training.degrees
    kind = {"full": "full"}.get(row["mode"], "select" if "sel" in row["mode"] else "none")
    one = total(layer_activations(training, DENSE, kind=kind))
    # The first rank holds as many microbatches as there are ranks, and with several chunks some more. [eq. 6]
    more = 1 + (degrees.pipeline - 1) / (degrees.pipeline * degrees.chunks) if degrees.chunks > 1 else 1
    assert one * training.model.layers * more / GIB == pytest.approx(float(row["formula_activation_gib"]), abs=1e-5)


@pytest.mark.parametrize("row", formulas(), ids=lambda row: row["id"])
def test_parameters_take_eighteen_bytes_as_published(row: dict[str, str]) -> None:
    training = published(row)
    size = state_bytes(training, layer_parameters(training, DENSE))
    stated = float(row["formula_params_optimizer_gib"])
    assert size * training.model.layers / training.degrees.pipeline / GIB == pytest.approx(stated, abs=1e-5)


@pytest.mark.parametrize(
    ("sequence", "batch", "hidden", "ffn", "heads", "kv_heads"),
    [(256, 1, 512, 1376, 8, 2), (512, 3, 512, 1376, 8, 8), (2048, 1, 1024, 2816, 16, 4)],
)
def test_an_eager_llama_layer_keeps_to_the_byte_what_its_trace_keeps(
    sequence: int, batch: int, hidden: int, ffn: int, heads: int, kv_heads: int
) -> None:
    sizes = {"hidden_size": hidden, "intermediate_size": ffn, "num_attention_heads": heads}
    config = llama_config(**sizes, num_key_value_heads=kv_heads, head_dim=64)
    row = read_decoder(as_fields(config, file="config.json"), sequence=sequence, microbatch=batch, dtype=Dtype.BFLOAT16)
    model = transformer(hidden=hidden, heads=heads, kv_heads=kv_heads, head_dim=64, ffn=ffn, gated=True)
    training = Training(
        model=model, degrees=Degrees(), microbatch=batch, global_batch=batch, sequence=sequence,
        software=Software(fused_elementwise=False),
    )  # fmt: skip
    for kind in ("none", "full"):
        traced = trace(row.body[0], kind)
        assert total(layer_activations(training, DENSE, kind=kind)) == traced.activation_bytes
    working = total(layer_working(training, DENSE, kind="full"))
    assert working == pytest.approx(trace(row.body[0], "full").working_bytes, rel=0.1)


@given(trainings(), st.booleans())
def test_recomputation_never_keeps_more(training: Training, has_experts: bool) -> None:
    experts = has_experts and training.model.experts is not None
    none, select, full = (
        total(layer_activations(training, WITH_EXPERTS if experts else DENSE, kind=kind))
        for kind in ("none", "select", "full")
    )
    assert full <= none
    assert select <= none
    assert full <= select


@given(trainings())
def test_what_is_dropped_comes_again_as_working_memory(training: Training) -> None:
    def needed(kind: str) -> int:
        kept = layer_activations(training, DENSE, kind=kind)
        return total(kept) + total(layer_working(training, DENSE, kind=kind))

    # The input of a layer is kept beside what is computed from it.
    extra = total(layer_activations(training, DENSE, kind="full")) + len(Held)
    assert needed("none") <= needed("full") + extra


def test_tokens_of_experts_spread_over_devices() -> None:
    """8 of 64 experts a token, 16 ways: the fullest device gets a quarter more tokens than it sends."""
    experts = Experts(count=64, active=8, ffn=256)
    model = transformer(experts=experts, gated=True)
    alone = Training(model=model, degrees=Degrees(data=16), microbatch=1, global_batch=16, sequence=128)
    spread = replace(alone, degrees=replace(alone.degrees, expert=16))
    for training, rows in ((alone, 128 * 8), (spread, 128 * 10)):
        expected = rows * 2 * (512 + 3 * 256) + 128 * 64 * 9
        assert layer_activations(training, WITH_EXPERTS, kind="none")[Held.EXPERTS] == expected
    assert layer_parameters(alone, WITH_EXPERTS).expert == 16 * layer_parameters(spread, WITH_EXPERTS).expert


def test_latent_attention_is_dropped_with_its_upward_projections() -> None:
    latent = LatentAttention(query_rank=96, key_value_rank=64, rotary_dim=16, plain_dim=32, value_dim=32)
    training = Training(
        model=transformer(latent=latent), degrees=Degrees(tensor=2, sequence_parallel=True), microbatch=1,
        global_batch=1, sequence=128, recompute_modules=("mla_up_proj",),
    )  # fmt: skip
    kept = {kind: layer_activations(training, DENSE, kind=kind) for kind in ("none", "select")}
    heads = 8 // 2
    assert kept["none"][Held.ATTENTION] - kept["select"][Held.ATTENTION] == 2 * 128 * heads * (48 + 48 + 32)


def test_fully_sharded_training_keeps_every_second_product() -> None:
    model = transformer(gated=True, ffn=1024)
    training = Training(
        model=model, degrees=Degrees(), microbatch=1, global_batch=1, sequence=64, recompute_modules=(PRODUCTS,)
    )
    names = [tensor.name for tensor in layer_tensors(training, DENSE)]
    kept = layer_activations(training, DENSE, kind="select")
    assert kept[Held.MLP] == 2 * 64 * (1024 + 512), names
    assert kept[Held.NORMS] == 2 * 64 * 512, names


def test_eight_bits_halve_what_products_keep_of_their_inputs() -> None:
    model = transformer(gated=True, ffn=1024)
    sixteen = Training(model=model, degrees=Degrees(), microbatch=1, global_batch=1, sequence=64)
    eight = replace(sixteen, precision="fp8")
    before, after = (layer_activations(each, DENSE, kind="none") for each in (sixteen, eight))
    assert before[Held.MLP] - after[Held.MLP] == 64 * 1024
    assert before[Held.NORMS] - after[Held.NORMS] == 2 * 64 * 512


def test_what_a_selective_backward_does_again_is_what_its_activations_lack() -> None:
    topology = Topology(accelerator=accelerator_named("h100"), domain_devices=8)
    model = transformer(gated=True, ffn=1024, layers=2)
    plain = Training(model=model, degrees=Degrees(), microbatch=1, global_batch=1, sequence=4096)
    times = {
        module: priced_network(replace(plain, recompute_modules=(module,)), topology)
        .network.layers[0]
        .recompute_ns(SELECT)
        for module in ("core_attn", PRODUCTS, "absent")
    }
    whole = priced_network(plain, topology).network.layers[0].recompute_ns(FULL)
    assert times["absent"] == 0
    assert 0 < times["core_attn"] < whole
    assert 0 < times[PRODUCTS] < whole
