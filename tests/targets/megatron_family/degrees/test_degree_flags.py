"""Degrees as Megatron-LM's flags: what a run prints of them reads back as the same degrees."""

import shlex
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.predict.training import Degrees, Sharding
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.targets.frameworks.megatron.target import TARGET
from evenflow.targets.megatron_family.degrees.degree_flags import degree_flags, degree_notes
from evenflow.targets.megatron_family.logs import MEGATRON
from tests.targets.megatron_family.test_logs import parsed

SIZES = st.integers(1, 64)
ZERO = {
    Sharding.NOTHING: None,
    Sharding.OPTIMIZER: "distopt",
    Sharding.GRADIENTS: "distopt",
    Sharding.PARAMETERS: "fsdp",
}


def planned(*, replicas=1, microbatch=2, **degrees):
    return PlannedDegrees(
        degrees=Degrees(**degrees), replicas=replicas, microbatch=microbatch, num_microbatches=8, sequence=4096
    )


def printed(flags):
    """What a run prints of its flags when it starts."""
    lines = []
    for flag, values in flags.items():
        name = flag.removeprefix("--").replace("-", "_")
        lines.append(f"  {name} {'.' * 10} {' '.join(values) if values else True}")
    return MEGATRON.fields(parsed(lines).stated)


@pytest.mark.parametrize(
    ("degrees", "is_written"),
    [
        ({"data": 4, "sharding": Sharding.OPTIMIZER}, True),
        ({"sharding": Sharding.NOTHING}, True),
        ({"data": 4, "sharding": Sharding.NOTHING}, False),
        ({"context": 2, "sharding": Sharding.NOTHING}, False),
        ({"data": 4, "sharding": Sharding.GRADIENTS}, False),
    ],
)
def test_state_on_the_host(degrees, is_written):
    offloaded = planned(**degrees, optimizer_offload=0.5)
    if not is_written:
        with pytest.raises(InputError, match="zero must be 1 where the host keeps"):
            degree_flags(offloaded)
        return
    flags = degree_flags(offloaded)
    assert flags["--optimizer-offload-fraction"] == ("0.5",)
    for flag in ("optimizer-cpu-offload", "use-precision-aware-optimizer", "use-distributed-optimizer"):
        assert flags[f"--{flag}"] == ()
    assert not any("offload" in flag for flag in degree_flags(planned(**degrees)))


def test_state_on_the_host_of_a_script_is_named():
    text = "--num-layers 8 --pipeline-model-parallel-size 2 --use-distributed-optimizer --optimizer-cpu-offload"
    assert TARGET.read_degrees(text, "run.sh").unknown == ("run.sh, line 1: optimizer_cpu_offload",)


@given(SIZES, SIZES, SIZES, SIZES, SIZES, st.sampled_from(Sharding), st.booleans())
def test_degrees_read_back(tensor, context, data, expert, microbatch, sharding, sequence_parallel):
    found = planned(
        tensor=tensor,
        context=context,
        data=data,
        expert=expert,
        sharding=sharding,
        sequence_parallel=sequence_parallel,
        microbatch=microbatch,
    )
    fields = printed(degree_flags(found))
    assert (fields["tp"], fields["cp"], fields["ep"] or 1) == (tensor, context, expert)
    assert (fields["mbs"], fields["gbs"], fields["seq"]) == (microbatch, microbatch * 8 * data, 4096)
    assert fields["zero"] == ZERO[sharding]
    assert bool(fields["sequence_parallel"]) == (sequence_parallel and tensor > 1)


@pytest.mark.parametrize("sharding", [Sharding.GRADIENTS, Sharding.PARAMETERS])
def test_only_the_optimizer_is_shared_out_beside_a_pipeline(sharding):
    with pytest.raises(InputError, match="must be ZeRO-1 beside a pipeline"):
        degree_flags(planned(pipeline=2, data=4, sharding=sharding))


def test_all_flags_of_a_plan():
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=((3, 5),), recompute={"full": ((2, 2),)})
    written = TARGET.write_degrees(plan, planned(tensor=4, pipeline=2, data=8, replicas=2), TARGET.versions[-1])
    assert shlex.split(written.pieces[0].text)[1:-1] == [
        *("--num-layers", "8", "--pipeline-model-parallel-size", "2"),
        *("--pipeline-model-parallel-layout", "Et*3|t*5L"),
        *("--tensor-model-parallel-size", "4", "--context-parallel-size", "1"),
        *("--micro-batch-size", "2", "--global-batch-size", "128", "--seq-length", "4096"),
        *("--sequence-parallel", "--use-distributed-optimizer", "--num-distributed-optimizer-instances", "2"),
        *("--recompute-granularity", "full", "--recompute-method", "block", "--recompute-num-layers", "2"),
    ]
    assert "start it on 64 devices, node after node: data parallel over 8" in written.notes
    assert not any("--global-batch-size must be" in note for note in written.notes)


def test_a_single_stage_has_no_layout():
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=((8,),))
    (piece,) = TARGET.write_degrees(plan, planned(data=8, sharding=Sharding.PARAMETERS), TARGET.versions[-1]).pieces
    assert "layout" not in piece.text
    assert "    --data-parallel-sharding-strategy optim_grads_params\n" in piece.text


def test_a_capacity_of_experts_is_a_flag_with_what_it_needs():
    without = planned(data=8, expert=4)
    found = replace(without, expert_capacity=1.25)
    flag = {"--moe-expert-capacity-factor": ("1.25",)}
    assert degree_flags(found) == degree_flags(without) | flag
    (note,) = set(degree_notes(found)) - set(degree_notes(without))
    assert "--moe-pad-expert-input-to-capacity out" in note


def test_whole_activations_have_no_sequence_parallelism():
    found = planned(tensor=4, sequence_parallel=False)
    assert "--sequence-parallel" not in degree_flags(found)
    assert any("leave out --sequence-parallel" in note for note in degree_notes(found))
