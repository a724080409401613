"""`evenflow profile` and `evenflow predict` give one answer to one question, for ten decoders."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from evenflow.cluster import accelerator_named
from evenflow.cluster.topology import Topology
from evenflow.errors import InputError
from evenflow.fields import as_fields
from evenflow.model import FULL, NONE, EndBlock, Layer, Network
from evenflow.predict.step_network import kept_by_kind, priced_layer_of, priced_network
from evenflow.predict.training import FULL_ATTENTION, Degrees, Sharding, Software, Training
from evenflow.profiles.transformer.config_file import transformer_of_config
from evenflow_torch.profile import profile_config
from evenflow_torch.profile.model_profile import ModelProfile
from evenflow_torch.requests import EAGER
from tests.paths import EXAMPLES

SEQUENCE = 4096
NEAR = 0.01


def example(name: str, **changes: object) -> dict[str, object]:
    """An example's configuration with few layers: others are like them."""
    config = json.loads((EXAMPLES / "configs" / f"{name}.json").read_text())
    return {**config, "num_hidden_layers": 2, **changes}


def sizes(model_type: str, hidden: int, ffn: int, heads: int, kv_heads: int, **others: object) -> dict[str, object]:
    return {
        "model_type": model_type, "hidden_size": hidden, "intermediate_size": ffn, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "num_hidden_layers": 2, "vocab_size": 128_000, **others,
    }  # fmt: skip


CONFIGS: dict[str, dict[str, object]] = {
    "llama3_8b": example("llama3_8b"),
    "llama3_70b": example("llama3_70b"),
    "llama3_405b": example("llama3_405b"),
    "mixtral_8x7b": example("mixtral_8x7b"),
    "qwen3_235b": example("qwen3_235b"),
    # transformers does not build the block that predicts a further token.
    "deepseek_v3": example("deepseek_v3", num_hidden_layers=4, num_nextn_predict_layers=0),
    "mistral_7b": sizes("mistral", 4096, 14336, 32, 8, sliding_window=None),
    "qwen2_7b": sizes("qwen2", 3584, 18944, 28, 4),
    "qwen3_8b": sizes("qwen3", 4096, 12288, 32, 8, head_dim=128),
    "llama2_7b": sizes("llama", 4096, 11008, 32, 32),
}


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The networks of both verbs, with default options, and the profile itself."""

    predicted: Network
    profiled: Network
    profile: ModelProfile


@pytest.fixture(scope="module", params=CONFIGS)
def answers(request: pytest.FixtureRequest) -> Answers:
    config = CONFIGS[request.param]
    model = transformer_of_config(as_fields(config, file=request.param), name=request.param).model
    training = Training(
        model=model, degrees=Degrees(pipeline=2), microbatch=1, global_batch=2, sequence=SEQUENCE
    )  # fmt: skip
    topology = Topology(accelerator=accelerator_named("h100"), domain_devices=8)
    profile = profile_config(config, sequence=SEQUENCE, accelerator="h100", name=request.param)
    return Answers(predicted=priced_network(training, topology).network, profiled=profile.network(), profile=profile)


def blocks(network: Network) -> Iterator[tuple[int, Layer | EndBlock]]:
    yield 1, network.head
    yield from ((run.count, run.layer) for run in network.runs)
    yield 1, network.tail


def padded_bytes(answers: Answers) -> int:
    """What a trace keeps beside the tables where attention pads values of 128 numbers to the 192 of a query.

    The padded values and results have 64 numbers more each, and the 128 that are cut out of a result are a copy.
    """
    return 2 * SEQUENCE * 128 * (64 + 64 + 128) if answers.predicted.name == "deepseek_v3" else 0


def test_they_have_the_same_layers(answers: Answers) -> None:
    predicted, profiled = ([count for count, _ in blocks(one)] for one in (answers.predicted, answers.profiled))
    assert profiled == predicted


def test_forwards_and_parameters_agree(answers: Answers) -> None:
    for (_, predicted), (_, profiled) in zip(blocks(answers.predicted), blocks(answers.profiled), strict=True):
        assert profiled.forward_ns == pytest.approx(predicted.forward_ns, rel=NEAR)
        assert profiled.parameter_bytes == pytest.approx(predicted.parameter_bytes, rel=NEAR)


@pytest.mark.parametrize("kind", [NONE, FULL])
def test_layers_agree_under_a_recompute_kind(answers: Answers, kind: str) -> None:
    for predicted, profiled in zip(answers.predicted.runs, answers.profiled.runs, strict=True):
        mine, theirs = profiled.layer.modes[kind], predicted.layer.modes[kind]
        assert mine.backward_ns == pytest.approx(theirs.backward_ns, rel=NEAR)
        padding = padded_bytes(answers) if kind == NONE else 0
        assert mine.activation_bytes - padding == pytest.approx(theirs.activation_bytes, rel=NEAR)
        assert mine.working_bytes == pytest.approx(theirs.working_bytes, rel=NEAR)


@pytest.mark.parametrize("end", ["head", "tail"])
def test_ends_agree(answers: Answers, end: str) -> None:
    mine, theirs = getattr(answers.profiled, end), getattr(answers.predicted, end)
    assert mine.backward_ns == pytest.approx(theirs.backward_ns, rel=NEAR)
    assert mine.activation_bytes == pytest.approx(theirs.activation_bytes, rel=NEAR)
    assert mine.working_bytes == pytest.approx(theirs.working_bytes, rel=NEAR)


def test_what_every_rank_holds_agrees(answers: Answers) -> None:
    assert answers.profiled.constant_bytes == answers.predicted.constant_bytes


def test_eager_operators_keep_more_and_take_longer() -> None:
    config = CONFIGS["llama3_8b"]
    fused, eager = (
        profile_config(config, sequence=SEQUENCE, accelerator="h100", elementwise=one).network().layers[0]
        for one in ("fused", EAGER)
    )
    assert eager.parameter_bytes == fused.parameter_bytes
    assert eager.forward_ns > fused.forward_ns
    assert eager.modes[NONE].activation_bytes > fused.modes[NONE].activation_bytes
    assert eager.modes[FULL].activation_bytes == fused.modes[FULL].activation_bytes


def test_a_model_that_the_tables_do_not_know_says_so() -> None:
    found = profile_config(CONFIGS["llama3_8b"], sequence=64, accelerator="h100", dtype="fp32")
    assert found.notes[-1].startswith("the tables of evenflow predict do not know this model")


@pytest.mark.parametrize("name", ["llama3_8b", "deepseek_v3"])
def test_full_attention_is_what_torch_has_under_a_checkpoint_of_it(name: str) -> None:
    found = profile_config(CONFIGS[name], sequence=SEQUENCE, accelerator="h100", recompute_sets=[["self_attn"]])
    model = transformer_of_config(as_fields(CONFIGS[name], file=name)).model
    training = Training(
        model=model, degrees=Degrees(sequence_parallel=False, sharding=Sharding.NOTHING), microbatch=1, global_batch=1,
        sequence=SEQUENCE, recompute_sets=((FULL_ATTENTION,),),
    )  # fmt: skip
    topology = Topology(accelerator=accelerator_named("h100"), domain_devices=1)
    for layer, kind in zip(found.layers, model.kinds, strict=True):
        kept = kept_by_kind(training, kind)[FULL_ATTENTION].activations
        again_ns = priced_layer_of(training, topology, kind).backward[FULL_ATTENTION].total_ns
        assert layer.activation_bytes["self_attn"] == pytest.approx(kept, rel=NEAR)
        # Torch's checkpoint ends before the last product, whose result nothing needs.
        assert layer.times.backward_ns["self_attn"] == pytest.approx(again_ns, rel=0.05)


@pytest.mark.parametrize("options", [{"device": "cpu", "expert_parallel": 2}, {"accelerator": "h100"}])
def test_a_dispatcher_of_exchanges_that_are_not_computed_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(InputError, match="--token-dispatcher must come with --expert-parallel and --device fake"):
        profile_config(CONFIGS["qwen3_235b"], sequence=8, token_dispatcher="deepep", **options)


@pytest.mark.parametrize("dispatcher", [None, "alltoall", "deepep"])
@pytest.mark.parametrize("name", ["qwen3_235b", "deepseek_v3"])
def test_experts_on_several_devices_have_the_same_halves(name: str, dispatcher: str | None) -> None:
    model = transformer_of_config(as_fields(CONFIGS[name], file=name), name=name).model
    training = Training(
        model=model, degrees=Degrees(pipeline=2, data=32, expert=32, sharding=Sharding.NOTHING), microbatch=1,
        global_batch=32, sequence=SEQUENCE, software=Software(sends_tokens_once=dispatcher == "deepep"),
    )  # fmt: skip
    predicted = priced_network(training, Topology.of(accelerator_named("h100"))).network
    profiled = profile_config(
        CONFIGS[name], sequence=SEQUENCE, accelerator="h100", expert_parallel=32, token_dispatcher=dispatcher
    ).network()
    assert predicted.exchanges_tokens
    for mine, theirs in zip(profiled.layers, predicted.layers, strict=True):
        assert mine.halves == theirs.halves is not None
        assert mine.forward_ns == pytest.approx(theirs.forward_ns, rel=NEAR)
        assert mine.parameter_bytes == pytest.approx(theirs.parameter_bytes, rel=NEAR)
        for kind in (NONE, FULL):
            assert mine.modes[kind].backward_ns == pytest.approx(theirs.modes[kind].backward_ns, rel=NEAR)


def test_modules_with_experts_exchange_tokens_again_and_others_do_not() -> None:
    """Beside the same layer on one device, whose exchanges are the whole difference."""
    sets = [["self_attn"], ["mlp"]]
    one, many = (
        profile_config(
            CONFIGS["qwen3_235b"], sequence=SEQUENCE, accelerator="h100", recompute_sets=sets, expert_parallel=devices
        ).network().layers[0]
        for devices in (1, 32)
    )  # fmt: skip

    def again_ns(layer: Layer, kind: str) -> int:
        return layer.modes[kind].backward_ns - layer.modes[NONE].backward_ns

    assert many.halves is not None
    exchanged_ns = many.halves.forward.exchange_ns
    assert again_ns(many, "self_attn") == pytest.approx(again_ns(one, "self_attn"), rel=0.05)
    assert again_ns(many, "mlp") >= exchanged_ns + 0.8 * again_ns(one, "mlp")
