"""Degrees in torchtitan's settings, in both syntaxes."""

import tomllib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.predict.training import Degrees, Sharding
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.targets.frameworks.torchtitan.target import TARGET
from evenflow.targets.frameworks.torchtitan.writer import parallelism_of

SIZES = st.integers(1, 16)
OLD, BY_TOKENS, NEW = TARGET.versions


def planned(*, replicas=1, **degrees):
    return PlannedDegrees(
        degrees=Degrees(**degrees), replicas=replicas, microbatch=2, num_microbatches=8, sequence=4096
    )


@given(SIZES, SIZES, SIZES, SIZES, st.sampled_from([Sharding.NOTHING, Sharding.GRADIENTS, Sharding.PARAMETERS]))
def test_the_degrees_are_all_devices_of_a_stage(tensor, context, shards, replicas, sharding):
    given_degrees = planned(
        tensor=tensor, context=context, data=shards * replicas, replicas=replicas, sharding=sharding
    )
    found = parallelism_of(given_degrees, NEW)
    names = ("data_parallel_replicate_degree", "data_parallel_shard_degree", "tensor_parallel_degree",
             "context_parallel_degree")  # fmt: skip
    copies, parts, *others = (found[name] for name in names)
    assert copies * parts == shards * replicas
    assert others == [tensor, context]
    assert parts == (1 if sharding is Sharding.NOTHING else shards)
    assert found.get("fsdp_reshard_after_forward") == {
        Sharding.GRADIENTS: "never", Sharding.PARAMETERS: "always"
    }.get(sharding)  # fmt: skip


def test_the_optimizers_state_alone_is_not_shared_out():
    with pytest.raises(InputError, match="torchtitan does not share out the optimizer's state alone"):
        parallelism_of(planned(data=8), NEW)


def test_a_capacity_of_experts_is_refused():
    found = replace(planned(data=8, expert=4, sharding=Sharding.PARAMETERS), expert_capacity=1.25)
    with pytest.raises(InputError, match=r"must be no capacity of experts: torchtitan drops no token, got 1\.25"):
        parallelism_of(found, NEW)


def test_tables_of_a_pipeline():
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=((3, 5),))
    degrees = planned(tensor=4, pipeline=2, data=8, replicas=2, sharding=Sharding.PARAMETERS)
    settings, order = TARGET.write_degrees(plan, degrees, OLD).pieces
    found = tomllib.loads(settings.text)
    assert found["training"] == {"local_batch_size": 16, "global_batch_size": 128, "seq_len": 4096}
    assert found["parallelism"].pop("module_fqns_per_model_part")[1][0] == "layers.3"
    assert found["parallelism"] == {
        "data_parallel_replicate_degree": 2,
        "data_parallel_shard_degree": 4,
        "tensor_parallel_degree": 4,
        "context_parallel_degree": 1,
        "expert_parallel_degree": 1,
        "fsdp_reshard_after_forward": "always",
        "pipeline_parallel_degree": 2,
        "pipeline_parallel_schedule": "1F1B",
        "pipeline_parallel_schedule_csv": "order.csv",
        "pipeline_parallel_microbatch_size": 2,
    }
    assert order.syntax == "csv"


def test_a_single_stage_accumulates_gradients_and_has_no_order():
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=((8,),))
    degrees = planned(data=4, sharding=Sharding.PARAMETERS)
    (old,) = TARGET.write_degrees(plan, degrees, OLD).pieces
    found = tomllib.loads(old.text)
    assert found["training"] == {"local_batch_size": 2, "global_batch_size": 64, "seq_len": 4096}
    assert not any(key.startswith("pipeline") for key in found["parallelism"])
    (new,) = TARGET.write_degrees(plan, degrees, NEW).pieces
    assert "pipeline" not in new.text
    assert "    config.parallelism.data_parallel_shard_degree = 4\n" in new.text
