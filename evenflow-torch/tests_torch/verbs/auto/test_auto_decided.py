"""``evenflow auto`` with decisions of a user: what is fixed holds, and no plan of theirs beats the search."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.networks import SMALL_LLAMA

pytestmark = pytest.mark.skipif(
    not (find_spec("torch") and find_spec("transformers")), reason="needs PyTorch and transformers"
)
QUICK = "base: a100\nreached: {operator_ns: 0}\n"
WORK = (
    "auto", "--model", "small.json", "--accelerator", "quick.yaml", "--mesh", "1x4", "--memory", "1GB",
    "--microbatches", "4", "--microbatch", "4", "--seq", "64", "--time-limit", "60",
    "--intra-bandwidth", "200GBps", "--intra-latency", "0s",
)  # fmt: skip


@pytest.fixture
def decided(folder, evenflow):
    """Runs the command in a folder with a small model, and returns its result with what it wrote."""
    (folder / "small.json").write_text(json.dumps(SMALL_LLAMA))
    (folder / "quick.yaml").write_text(QUICK)

    def run(*arguments: str):
        result = evenflow(*WORK, *arguments, "--json", "plan.json", "--overwrite")
        return result, json.loads((folder / "plan.json").read_text()) if result.exit_code == 0 else None

    return run


def test_what_is_fixed_holds_and_the_search_is_never_worse_than_the_plan_of_a_person(decided, folder):
    result, found = decided("--fix", "tensor=2,pipeline=2", "--fix", "zero=0")
    assert (result.exit_code, result.stderr) == (0, "")
    degrees = found["degrees"]
    assert (degrees["tensor"], degrees["data"], degrees["pipeline"], degrees["zero"]) == (2, 1, 2, "0")
    assert found["fixed"] == "tensor=2,pipeline=2,zero=0"
    assert all("tensor parallel over 2" in stage["words"] for stage in found["stages"])
    assert {len(plan["stages"]) for plan in found["alternatives"]} == {2}
    for layers in ([2, 2], [1, 3]):
        (folder / "own.yaml").write_text(f"tensor: 2\npipeline: 2\nlayers: {layers}\n")
        result, own = decided("--evaluate", "own.yaml")
        assert (result.exit_code, result.stderr) == (0, "")
        assert own["layers"] == [layers]
        assert own["makespan_ms"] >= found["makespan_ms"]
        assert (own["degrees"]["tensor"], own["degrees"]["pipeline"]) == (2, 2)
        assert "alternatives" not in result.stdout


def test_the_file_says_the_step_where_the_command_does_not(decided, folder, evenflow):
    (folder / "own.yaml").write_text("data: 4\nmicrobatch: 4\n")
    result, alike = decided("--evaluate", "own.yaml")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "--microbatch 4 --microbatches 4 --seq 64 --schedule 1f1b" in result.stdout.replace("\n", " ")
    (folder / "own.yaml").write_text("data: 4\nglobal_batch: 16\nmicrobatch: 4\nsequence: 64\nschedule: f-then-b\n")
    command = [
        word
        for at, word in enumerate(WORK)
        if not {"--microbatches", "--microbatch", "--seq"} & {*WORK[at - 1 : at + 1]}
    ]
    result = evenflow(*command, "--evaluate", "own.yaml", "--json", "own.json")
    assert (result.exit_code, result.stderr) == (0, "")
    own = json.loads((folder / "own.json").read_text())
    assert (own["microbatches"], own["microbatch"], own["sequence"], own["schedule"]) == (4, 4, 64, "f-then-b")
    assert own["stages"] == alike["stages"]


def test_a_plan_that_does_not_fit_is_priced_all_the_same(decided, folder):
    (folder / "own.yaml").write_text("data: 4\n")
    result, own = decided("--evaluate", "own.yaml", "--memory", "1MB")
    assert result.exit_code == 0
    assert "it does not fit: " in result.stdout
    assert max(own["peak_memory_mb"]) > own["memory_limit_mb"]


def test_the_split_of_a_parameter_holds(decided):
    result, found = decided("--fix", "pipeline=1,lm_head.weight=column")
    assert (result.exit_code, result.stderr) == (0, "")
    (stage,) = found["stages"]
    assert set(stage["parameters"]["lm_head.weight"].split()) <= {"S(0)"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--fix", "tensor=3"), "the product of the degrees must divide the 4 devices, got 3"),
        (("--fix", "tensor=2,data=2,context=1,pipeline=2"), "must be the 4 devices, got 8"),
        (("--fix", "pipeline=8"), "the product of the degrees must divide the 4 devices"),
        (("--fix", "nothing.weight=row"), "--fix must be the name of a parameter of the model"),
        (("--fix", "tensor=two"), "--fix: tensor must be an integer"),
        (("--evaluate", "none.yaml"), "none.yaml: no such file"),
        (("--evaluate", "own.yaml", "--fix", "tensor=2"), "--fix must not be given beside --evaluate"),
        (("--evaluate", "own.yaml"), "layers must be 2 numbers that add up to the 4 layers"),
        (("--evaluate", "kind.yaml"), "recompute must be a recompute kind that all layers have: "),
        (("--evaluate", "sizes.yaml"), "--seq must be 128, as sizes.yaml says, got 64; leave one of the two out"),
        (("--evaluate", "batch.yaml"), "--global-batch must be --microbatches times --microbatch, 4 x 4 = 16, got 8"),
    ],
)
def test_what_cannot_be_is_one_message(decided, folder, arguments, message):
    (folder / "own.yaml").write_text("tensor: 2\npipeline: 2\nlayers: [2, 5]\n")
    (folder / "sizes.yaml").write_text("tensor: 4\nsequence: 128\n")
    (folder / "batch.yaml").write_text("tensor: 4\nglobal_batch: 8\n")
    (folder / "kind.yaml").write_text("tensor: 4\nrecompute: everything\n")
    result, _found = decided(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.processes
def test_torch_leaves_no_folder_of_its_compiler(folder):
    from evenflow_torch.run.job.run_folder import COMPILER_FOLDER

    (folder / "small.json").write_text(json.dumps(SMALL_LLAMA))
    (folder / "quick.yaml").write_text(QUICK)
    temporary = folder / "temporary"
    temporary.mkdir()
    environment = {name: value for name, value in os.environ.items() if name != COMPILER_FOLDER}
    command = [sys.executable, "-m", "evenflow", *WORK, "--mesh", "1x1"]  # torch makes it when it is imported
    done = subprocess.run(command, capture_output=True, text=True, env={**environment, "TMPDIR": str(temporary)})
    assert done.returncode == 0, done.stderr
    assert not list(temporary.iterdir())
