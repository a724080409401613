"""Which Megatron-LM a script is for, by its flags or by the checkout that it lies in."""

import pytest

from evenflow.model import Plan
from evenflow.targets.frameworks.megatron.target import TARGET as MEGATRON
from evenflow.targets.frameworks.mindspeed.target import TARGET as MINDSPEED
from evenflow.targets.megatron_family.forks import knows_no_layout
from evenflow.targets.registry import all_targets, target_of_file
from evenflow.targets.target import GivenSizes

SCRIPT = """\
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 16 --micro-batch-size 1 --global-batch-size 16 {more} \\
    --pipeline-model-parallel-size 4
"""
PLAN = Plan(
    schedule="interleaved", num_microbatches=8, layers=((2,) * 4, (2,) * 4), recompute={"full": ((1,) * 4, (1,) * 4)}
)


@pytest.mark.parametrize(
    ("more", "name", "version"),
    [
        ("", "megatron", "0.13"),
        ("--enable-zero-bubble", "megatron", "0.2"),
        ("--checkpoint-activations", "megatron", "0.2"),
        ("--enable-zero-bubble --pipeline-model-parallel-layout 'Et*4|t*4|t*4|t*4L'", "megatron", "0.13"),
        ("--deepspeed --deepspeed_config ds.json", "megatron-deepspeed", "3.0"),
        ("--pp-partition-method type:transformer", "megatron-deepspeed", "2.4"),
        ("--use-fused-rmsnorm", "mindspeed", "1.0"),
        ("--num-layer-list 4,4,5,3", "mindspeed", "1.0"),
        ("--use-fused-rmsnorm  # with mindspeed", "mindspeed", "26.1"),
        ("--pipeline-num-transformer-layers [[4],[4],[5],[3]]", "mindspeed", "26.0"),
        ("--noop-layers 0,1", "mindspeed", "26.1"),
    ],
)
def test_a_fork_by_its_flags(more, name, version):
    script = SCRIPT.format(more=more)
    able = [target for target in all_targets().values() if target.read is not None]
    target = target_of_file(script, "run.sh", able=able, option="--to")
    assert (target.name, target.version_of(script, "run.sh")) == (name, version)


@pytest.mark.parametrize("has_layout", [False, True])
def test_a_checkout_says_whether_it_has_layouts(tmp_path, has_layout):
    core = tmp_path / "Megatron-LM" / "megatron" / "core" / "transformer"
    (tmp_path / "Megatron-LM" / "megatron" / "training").mkdir(parents=True)
    (tmp_path / "Megatron-LM" / "megatron" / "training" / "arguments.py").write_text("")
    core.mkdir(parents=True)
    if has_layout:
        (core / "pipeline_parallel_layer_layout.py").write_text("")
    file = tmp_path / "Megatron-LM" / "examples" / "run.sh"
    assert knows_no_layout(SCRIPT, str(file)) is not has_layout
    assert MEGATRON.version_of(SCRIPT, str(file)) == ("0.13" if has_layout else "0.2")


def test_without_layouts_a_plan_is_equal_stages():
    script = SCRIPT.format(more="--enable-zero-bubble")
    edited = MEGATRON.apply(script, "run.sh", PLAN)
    assert "layout" not in edited
    assert "--num-layers-per-virtual-pipeline-stage 2" in edited
    read = MEGATRON.read(edited, "run.sh", GivenSizes(num_microbatches=8)).plan
    assert (read.layers, read.recompute["full"]) == (PLAN.layers, PLAN.recompute["full"])


def test_a_list_stays_a_list():
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=((5, 4, 4, 3),))
    edited = MINDSPEED.apply(SCRIPT.format(more="--num-layer-list 4,4,5,3"), "run.sh", plan)
    assert "--num-layer-list 5,4,4,3" in edited
    assert "layout" not in edited
