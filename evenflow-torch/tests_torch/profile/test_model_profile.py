import json

import pytest
import torch
from torch import nn

from evenflow.cluster.dtypes import Dtype
from evenflow.errors import InputError
from evenflow.fields import as_fields
from evenflow.model import NONE, Network
from evenflow.profiles.layer_file import format_layer_file, parse_layer_file
from evenflow_torch.models.parts import ModelRow
from evenflow_torch.models.training_row import read_decoder
from evenflow_torch.profile import profile, profile_config
from evenflow_torch.profile.model_profile import ModelProfile, profile_row
from evenflow_torch.profile.timers import timer
from evenflow_torch.requests import EAGER
from tests.paths import EXAMPLES
from tests_torch.models.layers import GptLayer, llama_config

EXAMPLE = EXAMPLES / "configs" / "llama3_70b.json"
MOE = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32}


def decoder(*, tensor_parallel: int = 1, sequence: int = 16, **sizes: object) -> ModelRow:
    config = as_fields(llama_config(**sizes), file="config.json")
    return read_decoder(
        config, name="small", sequence=sequence, microbatch=1, dtype=Dtype.BFLOAT16, tensor_parallel=tensor_parallel
    )


def profiled(row: ModelRow, *, optimizer: str = "adam") -> ModelProfile:
    times = timer(device="fake", accelerator="a100")
    return profile_row(row, timer=times, optimizer=optimizer)


def num_parameters(found: ModelProfile) -> int:
    assert found.head is not None
    assert found.tail is not None
    return sum(part.num_parameters for part in (found.head, *found.layers, found.tail))


class TestDecoders:
    @pytest.mark.parametrize(
        "sizes",
        [
            {},
            {"model_type": "qwen3"},
            {"model_type": "mixtral", "num_local_experts": 4},
            {"model_type": "qwen3_moe", "mlp_only_layers": [0], **MOE},
        ],
    )
    def test_parameters_are_those_of_the_model(self, sizes: dict[str, object]) -> None:
        parts = decoder(**sizes)
        assert num_parameters(profiled(parts)) == parts.num_parameters

    def test_tied_weights_are_held_twice(self) -> None:
        parts = decoder(tie_word_embeddings=True)
        assert num_parameters(profiled(parts)) == parts.num_parameters + 320 * 64
        assert "tied" in parts.notes[0]

    def test_equal_neighbours_become_one_run(self) -> None:
        sizes = {"model_type": "qwen3_moe", "num_hidden_layers": 5, "mlp_only_layers": [0, 1], **MOE}
        network = profiled(decoder(**sizes)).network()
        assert [(run.layer.name, run.count) for run in network.runs] == [
            ("Qwen3MoeDecoderLayer.0", 2),
            ("Qwen3MoeDecoderLayer.2", 3),
        ]

    def test_sliding_windows_are_another_kind_of_layer(self) -> None:
        types = ["sliding_attention", "sliding_attention", "full_attention"]
        sizes = {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 8, "layer_types": types}
        network = profiled(decoder(num_hidden_layers=3, **sizes)).network()
        assert [run.count for run in network.runs] == [2, 1]

    def test_reads_back_from_the_layer_file(self) -> None:
        network = profiled(decoder()).network()
        assert parse_layer_file(format_layer_file(network), place="x") == network

    def test_devices_share_a_layer(self) -> None:
        # Norms and hidden states are whole on every device, everything else divides.
        whole, half = (profiled(decoder(tensor_parallel=count)) for count in (1, 2))
        norms = 2 * 64
        assert half.layers[0].num_parameters - norms == (whole.layers[0].num_parameters - norms) / 2
        assert half.layers[0].forward_flops == whole.layers[0].forward_flops / 2
        assert whole.layers[0].activation_bytes[NONE] / 2 < half.layers[0].activation_bytes[NONE]
        assert half.layers[0].activation_bytes["full"] == whole.layers[0].activation_bytes["full"]

    def test_a_public_model_of_70_billion(self) -> None:
        # 70,553,706,496 parameters, as its publishers' card rounds to 70.6 B; 6 operations a parameter and token in
        # forward and backward [Kaplan et al., arXiv:2001.08361, §2.1], plus those of attention.
        fields = as_fields(json.loads(EXAMPLE.read_text()), file="config")
        parts = read_decoder(fields, sequence=8192, microbatch=1, dtype=Dtype.BFLOAT16)
        found = profiled(parts)
        assert num_parameters(found) == parts.num_parameters == 70_553_706_496
        layer = found.layers[0]
        norms, attention = 2 * 8192, 2 * 8192 * 8192 * 8192
        assert layer.forward_flops == 2 * 8192 * (layer.num_parameters - norms) + attention
        assert [run.count for run in found.network().runs] == [80]


class TestLayers:
    def test_any_ordered_layers(self) -> None:
        layers = [GptLayer(16, 2), GptLayer(16, 2), nn.Linear(16, 16)]
        network = profile(
            layers, torch.zeros(1, 8, dtype=torch.long), head=nn.Embedding(10, 16), tail=nn.Linear(16, 10),
            accelerator="a100", optimizer="sgd", name="mine",
        )  # fmt: skip
        assert isinstance(network, Network)
        assert [(run.layer.name, run.count) for run in network.runs] == [("GptLayer.0", 2), ("Linear.2", 1)]
        assert network.head.parameter_bytes == 10 * 16 * 8
        assert network.head.weight_ns == network.head.backward_ns
        assert network.kinds == ("full", "none")

    def test_ends_never_recompute_even_where_they_are_like_layers(self) -> None:
        same = nn.Linear(64, 64)
        network = profile([same, same], torch.zeros(64, 64), head=same, tail=same, accelerator="a100")
        assert network.kinds == ("full", "none")
        assert [run.count for run in network.runs] == [2]

    def test_without_ends(self) -> None:
        network = profile([nn.Linear(4, 4)], torch.zeros(2, 4), accelerator="h100")
        assert (network.head.parameter_bytes, network.tail.parameter_bytes) == (0, 0)
        # A linear layer keeps its input, and its weight gradient needs that and the gradient of its result.
        assert network.layers[0].modes[NONE].activation_bytes == 2 * 4 * 4
        assert network.layers[0].until_weight_bytes == 2 * 2 * 4 * 4

    def test_no_layers(self) -> None:
        with pytest.raises(InputError, match="at least one layer"):
            profile([], torch.zeros(2, 4), accelerator="a100")

    def test_layers_that_ask_for_values(self) -> None:
        class Branching(nn.Linear):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return super().forward(x) if x.sum() > 0 else x

        with pytest.raises(InputError, match=r"Branching\.0 must run on .*values"):
            profile([Branching(4, 4)], torch.zeros(2, 4), accelerator="a100")

    def test_an_unknown_optimizer(self) -> None:
        with pytest.raises(InputError, match="optimizer must be one of adam"):
            profile([nn.Linear(4, 4)], torch.zeros(2, 4), accelerator="a100", optimizer="adamw")


def test_a_profile_from_a_configuration_says_what_its_numbers_are() -> None:
    found = profile_config(
        llama_config(tie_word_embeddings=True), sequence=16, accelerator="a100", tensor_parallel=2, name="small",
        elementwise=EAGER,
    )  # fmt: skip
    assert found.network() == profiled(decoder(tie_word_embeddings=True, tensor_parallel=2)).network()
    assert [note.split()[0] for note in found.notes] == ["times", "the", "communication"]
