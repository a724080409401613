"""A configuration in the place of a layer file: planned as by way of the layer file that `evenflow predict` writes."""

import json
import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest

from evenflow.fields import as_fields
from evenflow.profiles.plan_degrees import PlannedDegrees, read_degrees
from tests.paths import ROOT

pytestmark = pytest.mark.usefixtures("fake_solver", "folder")

DENSE = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024, "intermediate_size": 4096,
    "num_attention_heads": 16, "num_key_value_heads": 8, "num_hidden_layers": 16, "vocab_size": 32000,
    "tie_word_embeddings": False,
}  # fmt: skip
MIXTURE = DENSE | {
    "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2,
}  # fmt: skip
LATENT = DENSE | {
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "num_hidden_layers": 13,
    "num_key_value_heads": 16, "kv_lora_rank": 256, "q_lora_rank": 384, "qk_rope_head_dim": 32, "qk_nope_head_dim": 64,
    "v_head_dim": 64, "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 512,
    "n_shared_experts": 1, "first_k_dense_replace": 1,
}  # fmt: skip
SIZES = ("--ranks", 4, "--microbatches", 8)
OF_THE_MODEL = ("degrees", "microbatch", "sequence", "expert_capacity")
"""Fields that a layer file knows nothing of."""


def written(config: dict[str, object], path: str = "model.json") -> str:
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text(json.dumps(config))
    return path


def answer(evenflow, *arguments) -> tuple[str, dict[str, object]]:
    """What a command prints to standard output, and its JSON without the mark of the file."""
    result = evenflow(*arguments, "--json", "answer.json", "--overwrite")
    assert result.exit_code == 0, result.output
    fields = json.loads(Path("answer.json").read_text())
    del fields["written_by"]
    # A layer file does not say the tokens of a sequence.
    return re.sub(r"solved in [\d.]+ s|, at most [\d.,]+ tokens/s per device", "", result.stdout), fields


@pytest.mark.parametrize(
    ("config", "options", "of_pipeline"),
    [
        (DENSE, ("--tensor", 2, "--seq", 2048), ()),
        (DENSE, ("--data", 2, "--zero", 3, "--microbatch", 2, "--precision", "fp8", "--overlap", "none"), ()),
        (DENSE, ("--context", 2, "--no-sequence-parallel", "--tensor", 4), ("--chunks", 2)),
        (DENSE, ("--attention", "unfused", "--gradient-dtype", "bf16", "--gpus-per-node", 2), ("--schedule", "zb-h1")),
        (MIXTURE, ("--data", 4, "--expert", 4, "--expert-capacity", 1.5), ("--chunks", 4, "--group-size", 8)),
        (MIXTURE, ("--token-dispatcher", "deepep", "--data", 2, "--expert", 2), ()),
        (LATENT, ("--data", 2, "--expert", 2, "--elementwise", "eager"), ()),
        (LATENT, ("--tensor", 2, "--expert-tensor", 2, "--cuda-graphs"), ("--chunks", 2)),
    ],
)
def test_the_plan_is_that_of_the_layer_file_which_predict_writes(evenflow, config, options, of_pipeline):
    file = written(config)
    at_once, fields = answer(evenflow, "plan", file, "--accelerator", "h100", *SIZES, *of_pipeline, *options)

    given = dict(pairwise(options))
    sequences = 8 * given.get("--microbatch", 1) * given.get("--data", 1)
    length = () if "--seq" in options else ("--seq", 4096)
    chunks = dict(pairwise(of_pipeline)).get("--chunks", 1)
    layers = config["num_hidden_layers"]
    dealt = (
        ("--layers-per-rank", "3,3,4,3")
        if chunks == 1
        else ("--layers-per-rank", "1,1,2,2", "--layers-per-rank", "2,2,2,1")
    )
    predicted = evenflow(
        "predict", "--model", file, "--accelerator", "h100", "--pipeline", 4, "--global-batch", sequences, *length,
        *of_pipeline, *options, *(dealt if layers == 13 else ()), "-o", "layers.json", "--json", "prediction.json",
        "--overwrite",
    )  # fmt: skip
    assert predicted.exit_code == 0, predicted.output
    command = json.loads(Path("prediction.json").read_text())["plan_command"]
    in_two_steps, expected = answer(evenflow, *shlex.split(command)[1:])

    assert at_once == in_two_steps
    assert {name: value for name, value in fields.items() if name not in OF_THE_MODEL} == expected


def test_what_was_left_open_is_said(evenflow):
    result = evenflow("plan", written(LATENT), "--accelerator", "h100", *SIZES)
    assert result.exit_code == 0
    assert re.search(
        r"assumed: --seq=4096, --microbatch=1, --memory=\d+MB, --p2p-latency=\d+ns, --precision=bf16, ", result.stderr
    )
    assert "--recompute" not in result.stderr, "the planner decides it"

    given = ("--seq", 1024, "--microbatch", 2, "--memory", "70GB", "--p2p-latency", "1ms", "--precision", "bf16")
    result = evenflow("plan", written(LATENT), "--accelerator", "h100", *SIZES, *given)
    assert result.exit_code == 0
    assert "assumed: --attention=fused, " in result.stderr


def test_a_limit_and_messages_that_are_given_hold(evenflow):
    given = ("--memory", "70GB", "--p2p-latency", "1ms")
    _text, fields = answer(evenflow, "plan", written(DENSE), "--accelerator", "h100", *SIZES, *given)
    assert fields["memory_limit_mb"] == 70 * 1024
    assert fields["communication"] == {"latency_ms": 1.0, "transfer_ms": 0.0}


def test_the_degrees_go_on_to_the_framework(evenflow):
    degrees = ("--tensor", 2, "--data", 4, "--seq", 2048, "--microbatch", 3)
    _text, fields = answer(evenflow, "plan", written(DENSE), "--accelerator", "h100", *SIZES, *degrees)
    planned = read_degrees(as_fields(fields, file="answer.json"))
    assert isinstance(planned, PlannedDegrees)
    assert (planned.degrees.tensor, planned.degrees.data, planned.degrees.pipeline) == (2, 4, 4)
    assert (planned.microbatch, planned.sequence) == (3, 2048)
    exported = evenflow("export", "answer.json", "--to", "megatron")
    assert "--tensor-model-parallel-size 2" in exported.stdout


@pytest.mark.parametrize("verb", ["plan", "compare", "simulate"])
def test_a_folder_and_standard_input(evenflow, verb):
    arguments = (verb, "--accelerator", "a100", *SIZES)
    written(DENSE, "hub/config.json")
    of_folder = evenflow(*arguments, "hub")
    assert of_folder.exit_code == 0, of_folder.output
    of_file = evenflow(*arguments, "hub/config.json")
    assert re.sub("solved in .*", "", of_file.stdout) == re.sub("solved in .*", "", of_folder.stdout)
    piped = evenflow(*arguments, "-", stdin=json.dumps(DENSE))
    assert piped.exit_code == 0, piped.output


def test_a_plan_is_simulated_with_the_configuration_that_it_is_of(evenflow):
    options = ("--accelerator", "h100", "--tensor", 2)
    _text, planned = answer(evenflow, "plan", written(DENSE), *options, *SIZES)
    Path("answer.json").rename("plan.json")
    for files in (("model.json", "plan.json"), ("plan.json", "model.json")):
        _text, simulated = answer(evenflow, "simulate", *files, *options)
        for name in ("makespan_ms", "peak_memory_mb", "memory_limit_mb", "network", "communication"):
            assert simulated[name] == planned[name], name


@pytest.mark.parametrize("verb", ["plan", "compare", "simulate"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (SIZES, "--accelerator must be given for the configuration of a model, which has no times (model.json); add"),
        (("--accelerator", "h100", *SIZES, "--tensor", 3), "--tensor must divide the heads (16)"),
        (("--accelerator", "h100", *SIZES, "--expert", 2), "--expert must be 1 for a model without experts"),
        (
            ("--accelerator", "h100", "--ranks", 17, "--microbatches", 8, "--no-empty"),
            "layers of model must be at least 17",
        ),
        (("--accelerator", "x100", *SIZES), "--accelerator must be one of"),
        (("--accelerator", "h100", "--ranks", 4), "Missing option '--microbatches'"),
    ],
)
def test_what_a_configuration_cannot_be_planned_with(evenflow, verb, options, message):
    result = evenflow(verb, written(DENSE), *options)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize("verb", ["plan", "compare", "simulate"])
@pytest.mark.parametrize("option", [("--accelerator", "h100"), ("--seq", 1024), ("--tensor", 1), ("--cuda-graphs",)])
def test_options_of_a_configuration_beside_a_layer_file(evenflow, verb, option):
    result = evenflow(verb, "tiny.json", *SIZES, *option)
    assert result.exit_code == 2
    assert f"{option[0]} must come with the configuration of a model; tiny.json has its times" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("quick-tune", "model.json", *SIZES),
        ("export", "model.json", "--to", "megatron"),
        ("export", "plan.json", "--to", "megatron", "--layers", "model.json"),
    ],
)
def test_verbs_that_take_no_configuration_say_what_does(evenflow, arguments):
    written(DENSE)
    assert evenflow("plan", "tiny.json", *SIZES, "--json", "plan.json").exit_code == 0
    result = evenflow(*arguments)
    assert result.exit_code == 2
    assert "model.json must be a layer file or a plan file, not the configuration of a model" in result.stderr
    assert "evenflow plan model.json --accelerator NAME" in result.stderr
    assert "unknown field" not in result.stderr


@pytest.mark.parametrize("file", sorted((ROOT / "examples" / "configs").glob("*.json")), ids=lambda file: file.stem)
def test_every_example_is_planned_in_one_command(evenflow, file):
    result = evenflow("plan", file, "--accelerator", "h100", "--ranks", 8, "--microbatches", 8, "--memory", "90TB")
    assert result.exit_code == 0, result.output
