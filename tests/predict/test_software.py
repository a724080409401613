"""What frameworks do with the same mathematics: where it costs nothing, it is the same software for all."""

from dataclasses import replace

import pytest

from evenflow.predict.prediction import predict
from evenflow.predict.software import usual_software
from evenflow.predict.training import Degrees, Software
from evenflow.targets.registry import all_targets
from tests.predict.test_prediction import NODES, training


@pytest.mark.parametrize(("chunks", "overlaps"), [(1, False), (2, True)])
def test_messages_of_megatron_wait_with_one_chunk(chunks, overlaps):
    one = training(Degrees(pipeline=2, chunks=chunks))
    one = replace(one, software=usual_software("bf16"))
    assert one.overlaps_pipeline == overlaps
    assert replace(one, software=usual_software("bf16", overlaps_one_chunk=True)).overlaps_pipeline
    assert not replace(one, software=replace(one.software, overlaps_pipeline=False)).overlaps_pipeline


def test_formats_of_gradients():
    found = {name: usual_software(name) for name in ("bf16", "fp16", "fp32", "fp8")}
    assert {name: one.gradient_bytes for name, one in found.items()} == {"bf16": 4, "fp16": 2, "fp32": 4, "fp8": 4}
    assert {name: one.reduced_bytes for name, one in found.items()} == {"bf16": 4, "fp16": 2, "fp32": 4, "fp8": 2}


def test_portable_kernels_take_longer():
    one = training(Degrees())
    tuned, portable = (predict(replace(one, software=software), NODES).step_ns for software in both())
    assert portable > tuned


def both() -> tuple[Software, Software]:
    return usual_software("bf16"), usual_software("bf16", is_portable=True)


def test_every_framework_has_software():
    found = {name: target.software("bf16") for name, target in all_targets().items()}
    assert {name for name, one in found.items() if not one.fused_loss} == {"torchtitan", "nemo-automodel", "torch"}
    assert {name for name, one in found.items() if one.messages_in_turn} == {"deepspeed"}
    assert {name for name, one in found.items() if one.overlaps_one_chunk} == {"torchtitan", "nemo-automodel", "torch"}
