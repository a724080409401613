"""Blocks that predict further tokens in a profile: as `evenflow predict` has them, traced or measured."""

import json
from typing import Any

import pytest

from evenflow.cluster import accelerator_named
from evenflow.cluster.topology import Topology
from evenflow.fields import as_fields
from evenflow.model import FULL, NONE, Network
from evenflow.predict.separate_mtp import with_separate_mtp
from evenflow.predict.step_network import priced_network
from evenflow.predict.training import Degrees, Training
from evenflow.profiles.layer_file import format_layer_file, parse_layer_file
from evenflow.profiles.transformer.config_file import transformer_of_config
from evenflow_torch.profile import profile_config
from evenflow_torch.requests import EAGER
from tests.paths import EXAMPLES

SEQUENCE = 4096
GLM: dict[str, Any] = {
    **json.loads((EXAMPLES / "configs" / "glm45_air.json").read_text()), "num_hidden_layers": 3, "n_routed_experts": 16,
}  # fmt: skip
SMALL: dict[str, Any] = {
    **GLM, "hidden_size": 64, "intermediate_size": 128, "moe_intermediate_size": 32, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 256, "n_routed_experts": 4, "num_experts_per_tok": 2,
}  # fmt: skip


def predicted(depth: int) -> Network:
    config = {**GLM, "num_nextn_predict_layers": depth}
    model = transformer_of_config(as_fields(config, file="glm"), name="glm").model
    training = Training(model=model, degrees=Degrees(pipeline=2), microbatch=1, global_batch=2, sequence=SEQUENCE)
    topology = Topology(accelerator=accelerator_named("h100"), domain_devices=8)
    return with_separate_mtp(training, topology, priced_network(training, topology).network)


@pytest.mark.parametrize("depth", [1, 2])
def test_they_are_those_of_the_prediction(depth: int) -> None:
    config = {**GLM, "num_nextn_predict_layers": depth}
    found = profile_config(config, sequence=SEQUENCE, accelerator="h100", name="glm").network()
    expected = predicted(depth)
    assert found.mtp_layers == expected.mtp_layers == depth
    for mine, theirs in zip(found.layers[-depth:], expected.layers[-depth:], strict=True):
        assert mine.parameter_bytes == pytest.approx(theirs.parameter_bytes, rel=0.01)
        assert mine.forward_ns == pytest.approx(theirs.forward_ns, rel=0.01)
        assert mine.backward_ns == pytest.approx(theirs.backward_ns, rel=0.01)
        layers = found.layers[-depth - 1], expected.layers[-depth - 1]
        for kind in (NONE, FULL):
            more = [own.modes[kind].activation_bytes for own in (mine, theirs)]
            plain = [own.modes[kind].activation_bytes for own in layers]
            assert more[0] - plain[0] == more[1] - plain[1]
        assert (mine.is_mtp, mine.cut_before, mine.boundary_bytes) == (True, theirs.cut_before, theirs.boundary_bytes)
    assert found.tail.forward_ns == pytest.approx(expected.tail.forward_ns, rel=0.02)
    assert found.tail.backward_ns == pytest.approx(expected.tail.backward_ns, rel=0.02)
    assert found.tail.activation_bytes == pytest.approx(expected.tail.activation_bytes, rel=0.01)
    again = parse_layer_file(format_layer_file(found), place="layers.json")
    assert again.mtp_layers == depth


@pytest.mark.parametrize("device", ["fake", "cpu"])
def test_by_the_trace_alone_losses_keep_what_the_loss_keeps(device: str) -> None:
    options: dict[str, Any] = {"sequence": 32, "name": "small", "dtype": "fp32", "elementwise": EAGER, "device": device}
    if device == "fake":
        options["accelerator"] = "h100"
    without, with_further = (
        profile_config({**SMALL, "num_nextn_predict_layers": depth}, **options).network() for depth in (0, 2)
    )
    assert without.mtp_layers == 0
    assert with_further.mtp_layers == 2
    assert with_further.tail.activation_bytes == 3 * without.tail.activation_bytes
    first, second = with_further.layers[-2:]
    assert first.parameter_bytes - second.parameter_bytes == with_further.head.parameter_bytes
    assert second.parameter_bytes > with_further.layers[-3].parameter_bytes
    assert second.modes[NONE].activation_bytes > with_further.layers[-3].modes[NONE].activation_bytes
    if device == "fake":
        assert with_further.tail.forward_ns == 3 * without.tail.forward_ns
        assert second.forward_ns > with_further.layers[-3].forward_ns
