import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from evenflow.cluster import accelerator_named
from evenflow.profiles.layer_file import parse_layer_file, read_layer_file
from tests.networks import SMALL_LLAMA

SIZES = ("--seq", "64", "--accelerator", "h100")
needs_torch = pytest.mark.skipif(
    not (find_spec("torch") and find_spec("transformers")), reason="needs PyTorch and transformers"
)


@pytest.fixture
def config(folder: Path) -> Path:
    path = folder / "small.json"
    path.write_text(json.dumps(SMALL_LLAMA))
    return path


@needs_torch
class TestProfile:
    def test_prints_the_layer_file_and_says_the_rest_beside_it(self, config, evenflow):
        result = evenflow("profile", "--model", config, *SIZES)
        assert result.exit_code == 0
        network = parse_layer_file(result.stdout, place="stdout")
        assert (network.name, network.num_layers) == ("small", 4)
        assert network.kinds == ("full", "both", "select", "comm", "none")
        assert result.stderr.startswith("small: 4 layers; a microbatch is 1 x 64 tokens, bf16, adam\n")
        assert "BODY  LlamaDecoderLayer.0" in result.stderr
        share = 100 * accelerator_named("h100").reached.product_share
        assert f"{share:g} % of 989.4 TFLOPS bfloat16" in result.stderr

    def test_writes_files(self, folder, config, evenflow):
        result = evenflow("profile", "--model", config, *SIZES, "-o", "layers.json", "--json", "profile.json")
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout.endswith("wrote layers.json, profile.json\n")
        network = read_layer_file(folder / "layers.json")
        found = json.loads((folder / "profile.json").read_text())
        assert [(part["type"], part["layers"]) for part in found["parts"]] == [("HEAD", 1), ("BODY", 4), ("TAIL", 1)]
        layer = found["parts"][1]
        assert layer["parameters"] == 2 * 64 + 64 * (2 * 64 + 2 * 32 + 3 * 160)
        assert layer["parameter_mb"] == 18 * layer["parameters"] / 2**20
        assert layer["forward_ms"] == network.layers[0].forward_ns / 1e6
        assert layer["recompute"]["full"]["activation_mb"] == 2 * 64 * 64 / 2**20
        assert layer["spread"] is None
        workspaces = 2 * 32 * 2**20 + 32 * 2**20
        assert network.constant_bytes == workspaces + 2 * (2 * 64 * 64), "a message that comes, and one that goes"
        assert found["parts"][-1]["recompute"]["none"]["working_mb"] * 2**20 == network.tail.working_bytes > 0

    def test_a_folder_gives_the_name(self, folder, evenflow):
        (folder / "my-model").mkdir()
        (folder / "my-model" / "config.json").write_text(json.dumps(SMALL_LLAMA))
        result = evenflow("profile", "--model", "my-model", *SIZES)
        assert json.loads(result.stdout)["name"] == "my-model"

    def test_measures_on_the_cpu(self, config, evenflow):
        result = evenflow("profile", "--model", config, "--seq", "64", "--device", "cpu", "--dtype", "fp32")
        assert result.exit_code == 0
        assert "spread %" in result.stderr
        assert "measured on cpu" in result.stderr
        assert parse_layer_file(result.stdout, place="stdout").layers[0].forward_ns > 0

    def test_tensor_parallel_says_what_is_missing(self, config, evenflow):
        result = evenflow("profile", "--model", config, *SIZES, "--tensor-parallel", "2")
        assert result.exit_code == 0
        assert "communication between the 2 devices of a layer is not in the times" in result.stderr

    def test_a_plan_from_the_pipe(self, config, evenflow, fake_solver):
        layers = evenflow("profile", "--model", config, *SIZES).stdout
        plan = evenflow("plan", "-", "--ranks", "2", "--microbatches", "2", stdin=layers)
        assert plan.exit_code == 0
        assert plan.stdout.startswith("small: 4 layers on 2 ranks")

    def test_sets_of_modules_are_planned_with(self, config, evenflow, fake_solver):
        sets = ("--recompute-sets", "mlp,input_layernorm+mlp", "--elementwise", "eager")
        layers = evenflow("profile", "--model", config, *SIZES, *sets).stdout
        network = parse_layer_file(layers, place="stdout")
        assert network.kinds == ("full", "mlp+input_layernorm", "mlp", "none")
        plan = evenflow("plan", "-", "--ranks", "2", "--microbatches", "2", "--json", "plan.json", stdin=layers)
        assert plan.exit_code == 0
        refused = evenflow("profile", "--model", config, *SIZES, "--recompute-sets", "mpl")
        assert refused.exit_code == 2
        assert "--recompute-sets must be modules of a layer: self_attn" in refused.stderr

    @pytest.mark.parametrize("dtype", ["bf16", "fp32"])
    def test_experts_in_every_number_format(self, config, evenflow, dtype):
        config.write_text(json.dumps({**SMALL_LLAMA, "model_type": "mixtral", "num_local_experts": 4}))
        result = evenflow("profile", "--model", config, *SIZES, "--dtype", dtype)
        assert result.exit_code == 0
        assert "MixtralDecoderLayer" in result.stdout

    @pytest.mark.parametrize(
        ("change", "options", "message"),
        [
            ({"model_type": "abacus"}, SIZES, "model_type must be a decoder that transformers knows"),
            ({"num_key_value_heads": 3}, SIZES, "LlamaDecoderLayer.0 must run"),
            ({}, ("--seq", "64"), "accelerator must be given where no device"),
            ({}, ("--seq", "64", "--accelerator", "h10"), "did you mean 'h100'"),
            ({}, (*SIZES, "--efficiency", "0"), "a number from 0.0001 to 1"),
            ({}, (*SIZES, "--tensor-parallel", "3"), "must divide by the 3 devices"),
            ({}, ("--seq", "64", "--device", "cuda"), "must be a device that PyTorch sees"),
        ],
    )
    def test_bad_input(self, config, evenflow, change, options, message):
        config.write_text(json.dumps({**SMALL_LLAMA, **change}))
        if "cuda" in options:
            import torch

            if torch.cuda.is_available():
                pytest.skip("there is a CUDA device")
        result = evenflow("profile", "--model", config, *options)
        assert result.exit_code == 2
        assert message in result.stderr
        assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--device", "cpu", "--accelerator", "h100"), "--accelerator must come with --device fake"),
        (("--device", "cpu", "--efficiency", "0.5"), "--efficiency must come with --device fake"),
    ],
)
def test_options_that_contradict(config, evenflow, options, message):
    result = evenflow("profile", "--model", config, "--seq", "64", *options)
    assert result.exit_code == 2
    assert message in result.stderr


def test_without_pytorch_says_what_to_install(config, evenflow, monkeypatch):
    monkeypatch.setitem(sys.modules, "evenflow_torch.profile.model_profile", None)
    result = evenflow("profile", "--model", config, *SIZES)
    assert result.exit_code == 2
    assert "pip install 'evenflow[torch]'" in result.stderr


def test_a_file_that_is_no_configuration(config, evenflow):
    config.write_text("[]")
    result = evenflow("profile", "--model", config, *SIZES)
    assert result.exit_code == 2
    assert "small.json must be an object of named fields" in result.stderr
