"""Experts shared out over devices."""

import pytest
import torch
from torch import nn

from evenflow.cluster import parse_dtype
from evenflow.errors import InputError
from evenflow.fields import Fields, as_fields
from evenflow_torch.models.decoder_config import build_decoder
from evenflow_torch.models.experts.shared_out import has_experts
from evenflow_torch.models.parts import Part
from tests_torch.models.experts.small_experts import SMALL_EXPERTS


def config(**changes: object) -> Fields:
    return as_fields({**SMALL_EXPERTS, **changes}, file="small.json")


def built(expert_parallel: int, **changes: object) -> nn.Module:
    model: nn.Module = build_decoder(config(**changes), dtype=parse_dtype("fp32"), expert_parallel=expert_parallel)
    return model


def experts_of(model: nn.Module) -> nn.Module:
    return model.get_submodule("model.layers.1.mlp.experts")


def test_a_device_has_its_part_of_every_layers_experts_and_the_whole_router() -> None:
    whole, part = built(1), built(4)
    for mine, theirs in zip(experts_of(part).parameters(), experts_of(whole).parameters(), strict=True):
        assert mine.shape == (theirs.shape[0] // 4, *theirs.shape[1:])
    router = "model.layers.1.mlp.gate.weight"
    assert part.get_parameter(router).shape == whole.get_parameter(router).shape


def test_they_compute_as_many_rows_as_all_of_them_would() -> None:
    module = experts_of(built(4)).to_empty(device="cpu")
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    hidden, index, weights = torch.randn(3, 16), torch.tensor([[0, 7], [5, 2], [3, 6]]), torch.rand(3, 2)
    torch.testing.assert_close(module(hidden, index, weights), module(hidden, index % 2, weights))


def test_parts_with_experts_are_told_from_others() -> None:
    dense, experts = built(1, mlp_only_layers=[0]).get_submodule("model.layers").children()
    assert [has_experts(Part(name="layer", module=module)) for module in (dense, experts)] == [False, True]


def test_experts_must_divide() -> None:
    with pytest.raises(InputError, match="experts must divide by the 3 devices of --expert-parallel"):
        built(3)


def test_a_model_without_experts_is_refused() -> None:
    dense = {key: value for key, value in SMALL_EXPERTS.items() if "expert" not in key and "moe" not in key}
    with pytest.raises(InputError, match="--expert-parallel must be 1 for a model without experts, got 2"):
        build_decoder(
            as_fields({**dense, "model_type": "qwen3"}, file="small.json"), dtype=parse_dtype("fp32"), expert_parallel=2
        )
