"""Which Megatron-LM a script is for, by its flags or by the checkout that it lies in."""

import re
from dataclasses import replace

import pytest

from evenflow.errors import InputError
from evenflow.model import Plan, Scope
from evenflow.predict.training import Degrees, Sharding
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.targets.frameworks.megatron.target import TARGET as MEGATRON
from evenflow.targets.frameworks.megatron_deepspeed.target import TARGET as MEGATRON_DEEPSPEED
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
        ("", "megatron", "0.19"),
        ("--enable-zero-bubble", "megatron", "0.2"),
        ("--checkpoint-activations", "megatron", "0.1"),
        ("--activations-checkpoint-method block", "megatron", "0.1"),
        ("--DDP-impl local", "megatron", "0.2"),
        ("--enable-zero-bubble --pipeline-model-parallel-layout 'Et*4|t*4|t*4|t*4L'", "megatron", "0.19"),
        ("--deepspeed --deepspeed_config ds.json", "megatron-deepspeed", "3.0"),
        ("--pp-partition-method type:transformer", "megatron-deepspeed", "2.4"),
        ("--deepspeed --embed-layernorm", "megatron-deepspeed", "2.4"),
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


def checkout(folder, flags):
    """A file in a checkout of Megatron-LM with these flags."""
    (folder / "megatron").mkdir()
    (folder / "megatron" / "arguments.py").write_text(flags)
    return str(folder / "examples" / "run.sh")


@pytest.mark.parametrize(
    ("flags", "version"), [("'--checkpoint-activations'", "0.1"), ("'--recompute-granularity'", "0.2")]
)
def test_a_checkout_says_how_it_recomputes(tmp_path, flags, version):
    assert MEGATRON.version_of(SCRIPT, checkout(tmp_path, flags)) == version


@pytest.mark.parametrize(("flags", "version"), [("'--pp-partition-method'", "2.4"), ("'--deepspeed'", "3.0")])
def test_a_checkout_says_whose_megatron_deepspeed_it_is(tmp_path, flags, version):
    script = SCRIPT.format(more="--deepspeed")
    assert MEGATRON_DEEPSPEED.version_of(script, checkout(tmp_path, flags)) == version


@pytest.mark.parametrize(("package", "version"), [("modellink", "1.0"), ("mindspeed_llm", "26.1")])
def test_a_checkout_says_that_it_is_for_ascend(tmp_path, package, version):
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").write_text("")
    file, script = str(tmp_path / "examples" / "run.sh"), SCRIPT.format(more="")
    able = [target for target in all_targets().values() if target.read is not None]
    assert target_of_file(script, file, able=able, option="--to") is MINDSPEED
    assert MINDSPEED.version_of(script, file) == version


@pytest.mark.parametrize("has_layout", [False, True])
def test_a_checkout_says_whether_it_has_layouts(tmp_path, has_layout):
    core = tmp_path / "Megatron-LM" / "megatron" / "core" / "transformer"
    (tmp_path / "Megatron-LM" / "megatron" / "training").mkdir(parents=True)
    (tmp_path / "Megatron-LM" / "megatron" / "training" / "arguments.py").write_text("--recompute-granularity")
    core.mkdir(parents=True)
    if has_layout:
        (core / "pipeline_parallel_layer_layout.py").write_text("")
    file = tmp_path / "Megatron-LM" / "examples" / "run.sh"
    assert knows_no_layout(SCRIPT, str(file)) is not has_layout
    assert MEGATRON.version_of(SCRIPT, str(file)) == (MEGATRON.versions[-1] if has_layout else "0.2")


def test_without_layouts_a_plan_is_equal_stages():
    script = SCRIPT.format(more="--enable-zero-bubble")
    edited = MEGATRON.apply(script, "run.sh", PLAN)
    assert "layout" not in edited
    assert "--num-layers-per-virtual-pipeline-stage 2" in edited
    read = MEGATRON.read(edited, "run.sh", GivenSizes(num_microbatches=8)).plan
    assert (read.layers, read.recompute["full"]) == (PLAN.layers, PLAN.recompute["full"])


def test_megatron_lm_2_recomputes_all_or_none():
    script = SCRIPT.format(more="--activations-checkpoint-method uniform")
    edited = MEGATRON.apply(script, "run.sh", replace(PLAN, recompute={"full": PLAN.layers}))
    assert "--checkpoint-activations" in edited
    assert "--recompute" not in edited
    assert "checkpoint-method" not in edited
    assert MEGATRON.read(edited, "run.sh", GivenSizes(num_microbatches=8)).plan.recompute == {"full": PLAN.layers}
    assert "--checkpoint" not in MEGATRON.apply(edited, "run.sh", replace(PLAN, recompute={}))
    ways = MEGATRON.abilities("0.1").recomputation
    assert [(way.scope, way.kinds) for way in ways] == [(Scope.MODEL, ("full",))]


@pytest.mark.parametrize(("version", "has_modules"), [("0.2", False), ("0.13", True)])
def test_modules_are_named_where_they_can_be(version, has_modules):
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=((4,) * 4,), recompute={"select": ((4,) * 4,)})
    text = MEGATRON.write(plan, version).pieces[0].text
    assert "--recompute-granularity selective" in text
    assert ("--recompute-modules" in text) is has_modules


def planned(**changes):
    degrees = Degrees(
        **{"tensor": 2, "pipeline": 4, "data": 2, "sequence_parallel": False, "sharding": Sharding.NOTHING, **changes}
    )
    return PlannedDegrees(degrees=degrees, replicas=1, microbatch=1, num_microbatches=8, sequence=4096)


@pytest.mark.parametrize(
    ("version", "changes", "value"),
    [
        ("0.1", {"sharding": Sharding.OPTIMIZER}, "ZeRO-1"),
        ("0.1", {"sequence_parallel": True}, "sequence_parallel"),
        ("0.1", {"context": 2}, "context 2"),
        ("0.1", {"expert": 2, "expert_tensor": 2}, "expert 2"),
        ("0.2", {"expert": 2, "expert_tensor": 1}, "expert_tensor 1"),
        ("0.2", {"context": 2, "context_exchange": "all-to-all"}, "context_exchange all-to-all"),
        ("0.2", {"sharding": Sharding.PARAMETERS}, "ZeRO-3"),
    ],
)
def test_degrees_without_a_flag_are_refused(version, changes, value):
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=((4,) * 4,))
    with pytest.raises(InputError, match=rf"must be what this version of Megatron-LM has a flag for, got '{value}'"):
        MEGATRON.write_degrees(plan, planned(**changes), version)


@pytest.mark.parametrize(
    ("version", "changes", "flags"),
    [
        ("0.1", {}, {"--tensor-model-parallel-size", "--micro-batch-size", "--global-batch-size", "--seq-length"}),
        (
            "0.2",
            {"sharding": Sharding.OPTIMIZER, "sequence_parallel": True, "expert": 2, "expert_tensor": 2, "context": 2},
            {
                "--tensor-model-parallel-size",
                "--context-parallel-size",
                "--micro-batch-size",
                "--global-batch-size",
                "--seq-length",
                "--sequence-parallel",
                "--expert-model-parallel-size",
                "--use-distributed-optimizer",
            },
        ),
    ],
)
def test_degrees_have_the_flags_of_the_version(version, changes, flags):
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=((4,) * 4,))
    text = MEGATRON.write_degrees(plan, planned(**changes), version).pieces[0].text
    assert set(re.findall(r"--[\w-]+", text)) == flags | {"--num-layers", "--pipeline-model-parallel-size"}


def test_a_list_stays_a_list():
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=((5, 4, 4, 3),))
    edited = MINDSPEED.apply(SCRIPT.format(more="--num-layer-list 4,4,5,3"), "run.sh", plan)
    assert "--num-layer-list 5,4,4,3" in edited
    assert "layout" not in edited
