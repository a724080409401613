"""Whatever a ranking for a framework proposes is written for that framework as it is, whichever it is."""

import json
from dataclasses import replace

import pytest

from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.targets.refusal import refusal
from evenflow.targets.registry import all_targets
from evenflow.targets.tuning import for_framework
from evenflow.tune.candidate import Candidate
from evenflow.tune.search import search
from evenflow.tune.tuned import Tuned
from tests.targets.questions import DENSE, MIXTURE, asked
from tests.tune.questions import device_of

VERSIONS = [(target, version) for target in all_targets().values() for version in target.versions]
WITHOUT_EXPERTS = {("megatron", "0.1")}
"""Versions that have no experts at all."""
NAMES = [f"{target.name} {version}" for target, version in VERSIONS]
USUAL_FIRST = [
    pytest.param(target, version, id=name, marks=() if version == target.version(None) else pytest.mark.slow)
    for (target, version), name in zip(VERSIONS, NAMES, strict=True)
]
"""The other versions are slow: that no plan of theirs is refused is a test of its own, of all versions."""
CONFIG = {
    "model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 8, "num_attention_heads": 16,
    "num_key_value_heads": 4, "intermediate_size": 5632, "vocab_size": 32000, "tie_word_embeddings": False,
}  # fmt: skip


@pytest.mark.parametrize(("target", "version"), USUAL_FIRST)
def test_the_winner_is_exported_as_it_is(folder, evenflow, target, version):
    (folder / "config.json").write_text(json.dumps(CONFIG))
    made = evenflow(
        "tune", "--model", "config.json", "--accelerator", "h100", "--gpus", 8, "--gpus-per-node", 4, "--seq", 4096,
        "--global-batch", 24, "--memory", "10600MB", "--target", target.name, "--version-of", version,
        "--fix", "pipeline=2", "--max-microbatch", 1, "--rows", 1, "--time-limit", 1, "--json", "tune.json",
    )  # fmt: skip
    assert made.exit_code == 0, made.stderr
    written = evenflow("export", "tune.json", "--to", target.name, "--version-of", version, "--json", "out.json")
    assert written.exit_code == 0, written.stderr
    assert f"exact: {target.title} runs the plan as it is" in written.stdout
    assert all(piece["text"] for piece in json.loads((folder / "out.json").read_text())["pieces"])


@pytest.mark.parametrize(("target", "version"), VERSIONS, ids=NAMES)
@pytest.mark.parametrize(("model", "gigabytes"), [(DENSE, 20), (MIXTURE, 5)], ids=["dense", "mixture"])
def test_no_plan_of_any_configuration_is_refused(target, version, model, gigabytes):
    some = asked(target.name, model, version=version, devices=8)
    some = replace(some, memory_limit_bytes=device_of(gigabytes), global_batch=24, fixed={})
    written: list[Candidate] = []
    if model is MIXTURE and (target.name, version) in WITHOUT_EXPERTS:
        assert not search(for_framework(some, target, version), rows=2, time_limit_s=1).candidates
        return
    for seconds in (0.4, 60):  # a machine that is busy with other work needs longer
        answer = search(for_framework(some, target, version), rows=2, time_limit_s=seconds)
        written = written or [one for one in answer.candidates if one.plan is not None]
        if written:
            break
    assert written
    for one in written:
        _check(answer, one, target, version)


def _check(answer: Tuned, one, target, version) -> None:
    plan, training, abilities = one.plan, one.training, answer.question.abilities
    if plan.num_ranks > 1:
        assert refusal(plan, abilities, title=target.title) is None
    if target.write_degrees is None:
        return
    degrees = PlannedDegrees(
        degrees=training.degrees,
        replicas=1,
        microbatch=training.microbatch,
        num_microbatches=training.microbatches,
        sequence=training.sequence,
    )
    assert target.write_degrees(plan, degrees, version).pieces
