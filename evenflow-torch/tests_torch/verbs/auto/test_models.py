"""``evenflow auto`` with configurations beside Llama's: planned, run on two processes, and equal to one."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

needs_torch = pytest.mark.skipif(
    not (find_spec("torch") and find_spec("transformers")), reason="needs PyTorch and transformers"
)
BOTH = {"encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "dropout": 0.0}
CONFIGS: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 2, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
    "bert": {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
        "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
    },
    "bart": {"d_model": 32, "encoder_attention_heads": 2, "decoder_attention_heads": 2, **BOTH},
    "t5": {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 1, "num_heads": 2, "dropout_rate": 0.0},
}  # fmt: skip
WORK = ("--mesh", "1x2", "--memory", "1GB", "--microbatches", "2", "--microbatch", "2", "--dtype", "fp32")


@pytest.fixture
def config(folder: Path, request: pytest.FixtureRequest) -> str:
    model_type = request.param
    (folder / "config.json").write_text(
        json.dumps({"model_type": model_type, "vocab_size": 64, **CONFIGS.get(model_type, {})})
    )
    return "config.json"


@needs_torch
@pytest.mark.processes
@pytest.mark.parametrize("config", ["gpt2", "bert", "bart", pytest.param("t5", marks=pytest.mark.slow)], indirect=True)
def test_a_plan_trains_as_one_process_does(folder, config, evenflow, monkeypatch):
    from tests_torch.run.warm_ranks import start_warm, without_crashes

    start_warm(monkeypatch)
    source, target = 8, 6
    has_source = "decoder_layers" in (folder / config).read_text() or '"t5"' in (folder / config).read_text()
    options = ("--target-seq", str(target)) if has_source else ()
    planned = evenflow("auto", "--model", config, *WORK, "--seq", str(source), *options, "--json", "plan.json")
    assert (planned.exit_code, planned.stderr) == (0, "")
    found = json.loads((folder / "plan.json").read_text())
    assert (found["sequence"], found.get("target_sequence")) == (source, target if has_source else None)
    command = ("run", "plan.json", "--model", config, "--steps", "3", "--dtype", "fp64", "--verify")
    done = without_crashes(lambda: evenflow(*command))
    assert done.exit_code == 0, done.output
    assert "losses and gradients agree with the unsplit model" in done.stdout


@needs_torch
@pytest.mark.parametrize(
    ("config", "options", "message"),
    [
        ("gpt2", ("--target-seq", "8"), "--target-seq must not be given for a gpt2"),
        ("gpt2", ("--seq", "2048"), "must be at most the 1024 positions that the model has"),
        ("gpt2", ("--bytes-per-parameter", "7"), "must be at least the 8 of a weight and its gradient"),
        ("vit", (), "must be a decoder that transformers knows"),
        ("t6", (), "must be a decoder that transformers knows"),
    ],
    indirect=["config"],
)
def test_what_cannot_be_planned_is_refused_with_one_message(config, options, message, evenflow):
    result = evenflow("auto", "--model", config, *WORK, *options)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("error:") == 1
    assert "Traceback" not in result.stderr
