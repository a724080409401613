"""``evenflow export`` of two-level plans: degrees go with the pipeline; without them the reason is given."""

import json

import pytest

DEGREES = {
    "tensor": 2, "context": 1, "expert": 1, "data": 4, "replicas": 1, "zero": "1", "pipeline": 2, "chunks": 1,
    "sequence_parallel": True,
}  # fmt: skip


@pytest.fixture
def made(folder, evenflow):
    """Writes plan.json: a pipeline of two ranks with the fields of a two-level plan beside it."""

    def make(**fields: object) -> None:
        result = evenflow("simulate", "tiny.json", "--microbatches", 2, "--layers", "3,1", "--json", "plan.json",
                          "--overwrite")  # fmt: skip
        assert result.exit_code == 0, result.stderr
        plan = json.loads((folder / "plan.json").read_text())
        plan |= {"microbatch": 8, "sequence": 128, "degrees": DEGREES, **fields}
        (folder / "plan.json").write_text(json.dumps(plan))

    return make


def test_degrees_go_with_the_pipeline(made, evenflow):
    made()
    result = evenflow("export", "plan.json", "--to", "megatron")
    assert (result.exit_code, result.stderr) == (0, "")
    for flag in ("layout 'Et*3|tL'", "tensor-model-parallel-size 2", "micro-batch-size 2", "global-batch-size 16"):
        assert f"-{flag}\n" in result.stdout
    assert "start it on 16 devices" in result.stdout


def test_only_what_a_package_has_read_is_called_checked(made, evenflow):
    made()
    result = evenflow("export", "plan.json", "--to", "megatron")
    (said,) = (line for line in result.stdout.splitlines() if "checked with" in line)
    assert "pipeline and recomputation checked with megatron-core" in said
    assert "layers of such degrees built with megatron-core" in said
    assert said.endswith("ZeRO and batch written to the documentation, not run")
    result = evenflow("export", "plan.json", "--to", "mindformers")
    assert "mindformers 1.9.0; degrees, ZeRO and batch written to the documentation, not run" in result.stdout


@pytest.mark.parametrize("has_degrees", [True, False])
def test_apply_tells_that_it_leaves_degrees_out(made, folder, evenflow, has_degrees):
    made()
    if not has_degrees:
        plan = json.loads((folder / "plan.json").read_text())
        del plan["degrees"]
        (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "pretrain.sh").write_text("torchrun pretrain_gpt.py --num-layers 4 --pipeline-model-parallel-size 1\n")
    result = evenflow("apply", "plan.json", "pretrain.sh", "--to", "megatron")
    assert (result.exit_code, result.stderr) == (0, "")
    assert ("written by evenflow export plan.json --to megatron" in result.stdout) is has_degrees


def test_a_capacity_of_experts_goes_along(made, evenflow):
    made(expert_capacity=1.5)
    result = evenflow("export", "plan.json", "--to", "megatron")
    assert "--moe-expert-capacity-factor 1.5\n" in result.stdout
    made(expert_capacity=0)
    result = evenflow("export", "plan.json", "--to", "megatron")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "expert_capacity must be a number from 1 to 1,000" in result.stderr


def test_torchtitan_gets_them_too(made, evenflow):
    made(degrees={**DEGREES, "zero": "3"})
    result = evenflow("export", "plan.json", "--to", "torchtitan")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "config.parallelism.data_parallel_shard_degree = 4\n" in result.stdout


@pytest.mark.parametrize("target", ["megatron", "torchtitan"])
def test_stages_that_differ_are_refused_with_the_reason(made, evenflow, target):
    made(
        degrees=None,
        degrees_missing="stage 0 is on 4 devices, stage 1 on 2",
        plain=[{"name": "FSDP over 4, pipeline of 2 stages", "makespan_ms": 21.5}],
    )
    result = evenflow("export", "plan.json", "--to", target)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "must have stages that are all sharded alike" in result.stderr
    assert "stage 0 is on 4 devices, stage 1 on 2" in result.stderr
    assert "run it with evenflow run" in result.stderr
    assert "the shortest plain plan is FSDP over 4, pipeline of 2 stages, 21.500 ms a step" in result.stderr


GRADIENTS_TOO = ["torchtitan", "nemo-automodel", "mindformers-pynative"]
"""Frameworks that share out gradients wherever they share out the optimizer's state."""


@pytest.mark.parametrize("target", GRADIENTS_TOO)
@pytest.mark.parametrize("shared_by", ["data", "context"])
def test_what_a_framework_does_not_do_is_refused(made, evenflow, target, shared_by):
    made(degrees={**DEGREES, "data": 1, shared_by: 4})
    result = evenflow("export", "plan.json", "--to", target)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "got 'ZeRO-1'; plan again with --zero 2" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("target", GRADIENTS_TOO)
def test_nothing_is_shared_out_by_a_single_device(made, evenflow, target):
    made(degrees={**DEGREES, "data": 1})
    assert evenflow("export", "plan.json", "--to", target).exit_code == 0


def test_where_degrees_have_no_place_a_note_says_so(made, evenflow):
    made()
    result = evenflow("export", "plan.json", "--to", "torch")
    assert "note: only the pipeline is written" in result.stdout
