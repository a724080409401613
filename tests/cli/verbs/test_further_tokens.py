"""Layers of multi-token prediction through the commands: a launch script with its own m, compared, edited, exported."""

import json

import pytest

SCRIPT = """\
torchrun pretrain_gpt.py --num-layers 4 --mtp-num-layers 1 --pipeline-model-parallel-size 2 --world-size 2 \\
    --micro-batch-size 1 --global-batch-size 4 --pipeline-model-parallel-layout 'Et*3|tmL'
"""


@pytest.fixture
def script(folder):
    model = json.loads((folder / "tiny.json").read_text())
    model["layers_description"].append({**model["layers_description"][0], "name": "MTP", "nb_layer": 1, "mtp": True})
    (folder / "mtp.json").write_text(json.dumps(model))
    path = folder / "run.sh"
    path.write_text(SCRIPT)
    return path


def test_a_layout_is_read_planned_for_and_edited(script, folder, evenflow):
    compared = evenflow("compare", "mtp.json", "--baseline", "run.sh", "--time-limit", 5, "--json", "both.json")
    assert compared.exit_code == 0, compared.stderr
    plans = json.loads((folder / "both.json").read_text())
    assert plans["yours"]["layers"] == [[3, 2]]
    assert plans["yours"]["mtp_layers"] == 1

    planned = evenflow("plan", "mtp.json", "--ranks", 2, "--microbatches", 4, "--json", "plan.json")
    assert planned.exit_code == 0, planned.stderr
    script.write_text(SCRIPT.replace("Et*3|tmL", "Et*4|mL"))
    applied = evenflow("apply", "plan.json", "run.sh")
    assert applied.exit_code == 0, applied.stderr
    layers = json.loads((folder / "plan.json").read_text())["layers"][0]
    first, last = ("t" * layers[0], "t" * (layers[1] - 1) + "m")
    assert f"'E{first}|{last}L'" in (folder / "run.planned.sh").read_text().replace("*3", "tt")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("--mtp-num-layers 1", "--mtp-num-layers 2", "mtp_num_layers must be 1, the layers of multi-token prediction"),
        ("--mtp-num-layers 1 ", "", "must be 1, the layers of multi-token prediction of the model, got 0"),
    ],
)
def test_a_script_with_others_is_refused(script, evenflow, old, new, message):
    script.write_text(SCRIPT.replace(old, new).replace("tmL", "tL"))
    result = evenflow("compare", "mtp.json", "--baseline", "run.sh", "--time-limit", 5)
    assert result.exit_code == 2
    assert message in result.stderr


def test_other_frameworks_have_it_in_their_last_stage(script, folder, evenflow):
    evenflow("plan", "mtp.json", "--ranks", 2, "--microbatches", 4, "--target", "mindformers", "--json", "plan.json")
    result = evenflow("export", "plan.json", "--to", "mindformers")
    assert result.exit_code == 0, result.stderr
    assert "# with num_layers 4 " in result.stdout
    assert "the last stage also has the layer of multi-token prediction, which is not counted" in result.stdout


def test_torchtitan_trains_none_in_a_pipeline(script, folder, evenflow):
    message = "mtp_layers must be 0 for torchtitan, which trains no multi-token prediction in a pipeline, got 1"
    asked = evenflow("plan", "mtp.json", "--ranks", 2, "--microbatches", 4, "--target", "torchtitan")
    assert asked.exit_code == 2
    assert message in asked.stderr
    evenflow("plan", "mtp.json", "--ranks", 2, "--microbatches", 4, "--json", "plan.json")
    exported = evenflow("export", "plan.json", "--to", "torchtitan")
    assert exported.exit_code == 2
    assert message in exported.stderr


def test_a_layout_with_block_recomputation_is_known_to_the_search(script, folder, evenflow):
    """The method `block` skips the layer of multi-token prediction, which costs the same in the plan of the search."""
    more = " --recompute-granularity full --recompute-method block --recompute-num-layers 2\n"
    script.write_text(SCRIPT.replace("Et*3|tmL", "Et*3|t|m|L").rstrip("\n") + more)
    text = script.read_text().replace("--num-layers 4", "--num-layers 4 --no-overlap-p2p-communication")
    script.write_text(text)
    asked = ("compare", "mtp.json", "--baseline", "run.sh", "--time-limit", 5, "--json", "both.json")
    compared = evenflow(*asked)
    assert compared.exit_code == 0, compared.stderr
    plans = json.loads((folder / "both.json").read_text())
    assert plans["yours"]["layers"] == [[3, 1], [1, 0]]
    assert plans["yours"]["recompute"]["full"] == [[2, 1], [1, 0]]
    assert plans["recommended"]["makespan_ms"] <= plans["yours"]["makespan_ms"]
