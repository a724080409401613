"""``--set`` and ``--args``: what a launch script has from outside, in the verbs that read one."""

import pytest

SCRIPT = """\
source ./sizes.sh
torchrun pretrain_gpt.py --num-layers 4 --micro-batch-size 1 --global-batch-size $1 --world-size $PP \\
    --pipeline-model-parallel-size $PP $MORE
"""


@pytest.fixture
def script(folder):
    (folder / "sizes.sh").write_text('MORE="--bf16"\n')
    path = folder / "run.sh"
    path.write_text(SCRIPT)
    return path


def test_a_baseline_with_values_from_outside(script, evenflow):
    asked = ("compare", "tiny.json", "--baseline", "run.sh", "--time-limit", 5)
    refused = evenflow(*asked)
    assert refused.exit_code == 2
    assert "or give it with --set or --args" in refused.stderr
    result = evenflow(*asked, "--set", "PP=2", "--args", "4")
    assert result.exit_code == 0, result.stderr
    assert "yours" in result.stdout


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--set", "PP"), "--set must be a name and its value, such as PP=4, got 'PP'"),
        (("--set", "2=3"), "--set must be a name and its value, such as PP=4, got '2=3'"),
        (("--args", "'4"), "--args must have quotation marks that are closed"),
        (
            ("--set", "PP=2", "--set", "QQ=2", "--args", "4"),
            "must be a variable that the script reads before it sets it",
        ),
        (("--set", "MORE=2", "--set", "PP=2", "--args", "4"), "reads before it sets it, got 'MORE'"),
    ],
)
def test_what_is_no_input_of_the_script_is_refused(script, evenflow, given, message):
    result = evenflow("compare", "tiny.json", "--baseline", "run.sh", "--time-limit", 5, *given)
    assert result.exit_code == 2
    assert message in result.stderr


def test_inputs_without_a_script_are_refused(folder, evenflow):
    asked = ("compare", "tiny.json", "--ranks", 2, "--microbatches", 3, "--set", "PP=2")
    result = evenflow(*asked)
    assert result.exit_code == 2
    assert "a variable that the script reads" in result.stderr


def test_a_sourced_file_that_is_not_there_is_told(script, folder, evenflow):
    (folder / "sizes.sh").unlink()
    result = evenflow("compare", "tiny.json", "--baseline", "run.sh", "--time-limit", 5, "--set", "PP=2", "--args", "4")
    assert result.exit_code == 0, result.stderr
    assert "note: ./sizes.sh is sourced by the script and not read here: give what it sets with --set" in result.stderr


def test_flags_in_another_file_are_not_changed(script, folder, evenflow):
    (folder / "sizes.sh").write_text(
        'MORE="--recompute-granularity full --recompute-method block --recompute-num-layers 1"\n'
    )
    planned = evenflow("plan", "tiny.json", "--ranks", 2, "--microbatches", 4, "--json", "plan.json")
    assert planned.exit_code == 0, planned.stderr
    result = evenflow("apply", "plan.json", "run.sh", "--set", "PP=2", "--args", "4")
    assert result.exit_code == 2
    assert "must stand in this file to be changed" in result.stderr
    assert not (folder / "run.planned.sh").exists()


def test_plan_writes_a_script_whose_values_come_from_outside(script, folder, evenflow):
    asked = (
        "plan",
        "tiny.json",
        "--ranks",
        2,
        "--microbatches",
        4,
        "--apply",
        "run.sh",
        "--set",
        "PP=2",
        "--args",
        "4",
    )
    result = evenflow(*asked)
    assert result.exit_code == 0, result.stderr
    assert (folder / "run.planned.sh").exists()


def test_inputs_of_a_plan_without_a_script_are_refused_before_it_is_searched(folder, evenflow):
    result = evenflow("plan", "tiny.json", "--ranks", 2, "--microbatches", 4, "--args", "4", "--time-limit", 60)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: --args must be words that the script reads")
