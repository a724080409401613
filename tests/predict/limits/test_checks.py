"""Settings that cannot be, each with its message; and what is accepted."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cluster.data_sheets import accelerator_named
from evenflow.errors import InputError
from evenflow.predict.limits.checks import check_training
from evenflow.predict.prediction import predict
from evenflow.predict.training import Training
from evenflow.predict.transformer import Transformer
from tests.predict.limits.trainings import EXPERTS, MODEL, TOPOLOGY, training

H100 = accelerator_named("h100")


def refusal(asked: Training, accelerator: str = "a100") -> str:
    with pytest.raises(InputError) as refused:
        check_training(asked, accelerator_named(accelerator))
    return str(refused.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tensor": 0}, "tensor must be an integer from 1 to 1,000,000, got 0"),
        ({"tensor": 2.0}, "tensor must be an integer from 1 to 1,000,000, got 2.0"),
        ({"pipeline": 10**6}, "pipeline must be an integer from 1 to 10,000, got 1000000"),
        ({"data": 10**6}, "tensor x pipeline x context x data must be an integer from 1 to 1,000,000, got 8000000; "
         "use fewer devices"),
        ({"sequence": 10**9}, "sequence must be an integer from 1 to 10,000,000, got 1000000000"),
        ({"microbatch": 0}, "microbatch must be an integer from 1 to 1,000,000, got 0"),
        ({"tensor": 3}, "tensor must divide the heads (16), got 3; use 2"),
        ({"tensor": 6}, "tensor must divide the heads (16), got 6; use 4"),
        ({"pipeline": 5}, "pipeline must be such that pipeline x chunks (5) divides the 24 layers, or the layers of "
         "every rank be given, got 5; use 4"),
        ({"pipeline": 4, "chunks": 4}, "chunks must be such that pipeline x chunks (16) divides the 24 layers, or "
         "the layers of every rank be given, got 4; use 3"),
        ({"pipeline": 5, "chunks": 7}, "pipeline must be such that pipeline x chunks (35) divides the 24 layers, or "
         "the layers of every rank be given, got 5; use 4"),
        ({"pipeline": 9, "chunks": 2}, "pipeline must be such that pipeline x chunks (18) divides the 24 layers, or "
         "the layers of every rank be given, got 9; use 6"),
        ({"pipeline": 4, "ends_are_layers": True}, "pipeline must be such that pipeline x chunks (4) divides the 26 "
         "layers with embedding and loss, or the layers of every rank be given, got 4; use 2"),
        ({"layout": ((6, 6, 6, 5),)}, "layout must be the 24 layers of the model in all, got 23; change the layers of "
         "some ranks"),
        ({"schedule": "1f1bb"}, "schedule must be one of"),
        ({"schedule": "zbv"}, "chunks must be 2 per rank for zbv, got 1; take 2 chunks, or interleaved"),
        ({"context": 3, "sequence": 2048}, "sequence must be a multiple of 2 x context (6): each device has a part "
         "from the front and one from the back, so that all have equal work, got 2048; use 2,052"),
        ({"sequence": 2047}, "sequence must be a multiple of tensor x context (2), got 2047; use 2,048"),
        ({"context": 3, "context_exchange": "all-to-all", "sequence": 6144}, "context must divide the 8 heads of a "
         "device, which an all-to-all exchanges, got 3; use 2"),
        ({"context_exchange": "mail"}, "context_exchange must be one of ring, all-gather, all-to-all, got 'mail'"),
        ({"expert": 2}, "expert must be 1 for a model without experts, got 2; leave it out"),
        ({"global_batch": 60}, "global_batch must be a multiple of data x microbatch (4 x 2), got 60; use 64"),
        ({"chunks": 2, "group_size": 9}, "group_size must be from 1 to the 8 microbatches, got 9"),
        ({"recompute": "some"}, "recompute must be one of none, select, full, got 'some'"),
        ({"recompute": "select", "recompute_modules": ("core_atn",)}, "recompute_modules must be some of core_attn, "
         "layernorm, mlp, moe, moe_act, mla_up_proj, shared_experts, full_attn, products, got 'core_atn'; did you mean "
         "'core_attn'?"),
        ({"full_layers": 2}, "full_layers must not be given where layers are not recomputed in full, got 2; leave it "
         "out"),
        ({"recompute": "full", "full_layers": 0}, "full_layers must be an integer from 1 to 100,000, got 0"),
        ({"precision": "int8"}, "precision must be one of bf16, fp16, fp32, fp8, nvfp4, got 'int8'"),
        ({"precision": "fp8"}, "precision must be a format that a100-80 computes in, got 'fp8'; use one of bf16, fp16, "
         "fp32"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(settings: dict[str, Any], message: str) -> None:
    found = refusal(training(**settings))
    assert found.startswith(message) if message.endswith("one of") else found == message


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"expert": 3}, "expert must divide the 8 experts, got 3; use 2"),
        ({"expert": 2, "expert_tensor": 3}, "expert_tensor must divide the width of an expert (1408), got 3; use 2"),
        ({"expert": 8, "expert_tensor": 2}, "expert must be such that expert x expert tensor (16) "
         "divides the tensor x context x data devices of a stage (8), got 8; use 4, or a multiple of 64 devices"),
    ],
)  # fmt: skip
def test_experts_that_do_not_go_on_the_devices(settings: dict[str, Any], message: str) -> None:
    assert refusal(training(EXPERTS, **settings)) == message
    check_training(training(EXPERTS, expert=8), TOPOLOGY.accelerator)
    check_training(training(EXPERTS, expert=4, expert_tensor=2), TOPOLOGY.accelerator)


def test_widths_and_heads_that_cannot_be_split() -> None:
    assert refusal(training(replace(MODEL, ffn=2817))) == "tensor must divide the width of the MLP (2817), got 2; use 1"
    odd = replace(MODEL, heads=12, kv_heads=3, head_dim=64)
    rule = "tensor must divide the 3 heads of keys and values, or be a multiple of them, got 2; use 1"
    assert refusal(training(odd)) == rule
    check_training(training(replace(odd, ffn=3072), tensor=6, sequence=2052), H100)
    assert EXPERTS.experts is not None
    shared = replace(EXPERTS, experts=replace(EXPERTS.experts, shared_ffn=1409))
    assert refusal(training(shared)) == "tensor must divide the width of the shared experts (1409), got 2; use 1"


def test_a_model_has_no_more_positions_than_it_learns() -> None:
    gpt = replace(MODEL, positions=1024)
    assert refusal(training(gpt)) == "sequence must be at most the 1,024 positions that the model learns, got 2048"
    check_training(training(gpt, sequence=1024), H100)


def test_keys_and_values_are_repeated_on_more_devices() -> None:
    check_training(training(tensor=8), TOPOLOGY.accelerator)
    check_training(training(tensor=16, pipeline=2), TOPOLOGY.accelerator)


def test_formats_of_newer_accelerators() -> None:
    check_training(training(precision="fp8"), H100)
    message = "precision must be a format that h100 computes in, got 'nvfp4'; use one of bf16, fp16, fp32, fp8"
    assert refusal(training(precision="nvfp4"), "h100") == message
    check_training(training(precision="nvfp4"), accelerator_named("b200"))


def test_a_command_names_its_options() -> None:
    with pytest.raises(InputError, match=r"^--global-batch must be a multiple of data x microbatch"):
        check_training(training(global_batch=3), H100, named=lambda field: "--" + field.replace("_", "-"))


@given(
    tensor=st.integers(1, 9), pipeline=st.integers(1, 9), chunks=st.integers(1, 3), context=st.integers(1, 4),
    data=st.integers(1, 5), expert=st.integers(1, 9), expert_tensor=st.none() | st.integers(1, 3),
    microbatch=st.integers(1, 3), sequence=st.integers(1, 300), has_experts=st.booleans(),
)  # fmt: skip
def test_what_is_accepted_is_predicted_and_splits_evenly(
    tensor: int, pipeline: int, chunks: int, context: int, data: int, expert: int, expert_tensor: int | None,
    microbatch: int, sequence: int, has_experts: bool,
) -> None:  # fmt: skip
    """No setting that passes is refused later or leaves a device with a broken number of anything."""
    model: Transformer = EXPERTS if has_experts else MODEL
    asked = training(
        model, tensor=tensor, pipeline=pipeline, chunks=chunks, context=context, data=data, expert=expert,
        expert_tensor=expert_tensor, microbatch=microbatch, sequence=sequence, global_batch=24,
    )  # fmt: skip
    try:
        check_training(asked, TOPOLOGY.accelerator)
    except InputError:
        return
    assert model.heads % tensor == model.ffn % tensor == 0
    assert 24 % (data * microbatch) == 0
    assert model.layers % (pipeline * chunks) == 0
    result = predict(asked, TOPOLOGY)
    assert result.step_ns > 0
    assert len(result.memory) == pipeline


@given(
    tensor=st.integers(2, 40),
    kv_heads=st.integers(1, 24),
    of_kv=st.integers(1, 8),
    ffn=st.integers(1, 9000),
    shared=st.sampled_from([0, 0, 96, 1000]),
)
def test_a_tensor_degree_that_is_proposed_is_accepted(tensor, kv_heads, of_kv, ffn, shared):
    experts = replace(EXPERTS.experts, shared_ffn=shared) if shared else None
    model = replace(MODEL, heads=kv_heads * of_kv, kv_heads=kv_heads, ffn=ffn, experts=experts)
    asked = training(model=model)
    wrong = replace(asked, degrees=replace(asked.degrees, tensor=tensor))
    for error in broken_rules(wrong):
        if error.place == "tensor":
            better = replace(asked, degrees=replace(asked.degrees, tensor=int(error.remedy.removeprefix("use "))))
            assert not any(broken.place == "tensor" for broken in broken_rules(better))


def broken_rules(asked: Training) -> list[InputError]:
    try:
        check_training(asked, H100)
    except InputError as error:
        return [error]
    return []
