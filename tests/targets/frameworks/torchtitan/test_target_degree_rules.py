"""What torchtitan can split, rule by rule, and a question that is asked for it."""

from dataclasses import replace

import pytest

from evenflow.predict.training import Sharding
from evenflow.predict.transformer import LatentAttention
from evenflow.targets.frameworks.torchtitan.target import TARGET
from evenflow.targets.frameworks.torchtitan.values import NEW, OLD
from evenflow.tune.axes import Axis
from evenflow.tune.space import space_of
from tests.targets.questions import DENSE, MIXTURE, asked, broken, training

BOTH = pytest.mark.parametrize("version", [OLD, NEW])
FSDP = {"sharding": Sharding.PARAMETERS}
COPIES = {"sharding": Sharding.NOTHING}


@BOTH
def test_heads_of_keys_and_values_are_split_and_not_copied(version):
    # [torchtitan 0.3.0: `Decoder.Config.update_from_config`]
    rules = TARGET.degree_rules(version)
    assert broken(rules, training(tensor=8, **FSDP)) == ["tensor"]
    assert not broken(rules, training(tensor=4, **FSDP))
    latent = LatentAttention(query_rank=0, key_value_rank=512, rotary_dim=64, plain_dim=128, value_dim=128)
    assert not broken(rules, training(replace(DENSE, latent=latent), tensor=8, **FSDP))


@BOTH
def test_a_tied_output_layer_is_on_the_rank_of_the_embedding(version):
    # [torchtitan 0.3.0: `Decoder.Config.update_from_config`]
    rules, tied = TARGET.degree_rules(version), replace(DENSE, tied=True)
    assert broken(rules, training(tied, pipeline=2, data=2, **FSDP)) == ["pipeline"]
    assert not broken(rules, training(tied, data=2, **FSDP))
    assert not broken(rules, training(pipeline=2, data=2, **FSDP))


@BOTH
@pytest.mark.parametrize("pipeline", [1, 2])
def test_the_optimizers_state_is_not_shared_out_alone(version, pipeline):
    rules = TARGET.degree_rules(version)
    one = training(data=4, pipeline=pipeline, sharding=Sharding.OPTIMIZER)
    (refusal,) = rules.refusals(one, title="torchtitan")
    assert str(refusal) == "zero must be one of 0, 2, 3 for torchtitan, got 1"
    for sharding in (Sharding.GRADIENTS, Sharding.PARAMETERS):
        assert not broken(rules, training(data=4, pipeline=pipeline, sharding=sharding))


@BOTH
def test_context_ranks_share_parameters_out(version):
    # [torchtitan: `ParallelDims.build_mesh`, fsdp = dp_shard * cp]
    assert "zero" in broken(TARGET.degree_rules(version), training(context=2, data=2, **COPIES))
    assert not broken(TARGET.degree_rules(version), training(context=2, data=2, **FSDP))


@BOTH
def test_experts_lie_on_the_devices_of_one_copy(version):
    # [torchtitan: `ParallelDims.build_mesh`, efsdp = dp_shard * cp * tp // ep]
    rules = TARGET.degree_rules(version)
    assert "expert" in broken(rules, training(MIXTURE, data=8, tensor=2, expert=4, **COPIES))
    assert not broken(rules, training(MIXTURE, data=8, tensor=2, expert=4, **FSDP))
    assert "expert" not in broken(rules, training(MIXTURE, data=8, tensor=2, expert=2, **COPIES))


def test_version_0_2_copies_parameters_only_where_nothing_else_is_split():
    # [torchtitan 0.2.2: `parallelize_llama`: DDP has not supported > 1D parallelism]
    for degrees in ({"tensor": 2, "data": 4}, {"pipeline": 2, "data": 4}):
        assert broken(TARGET.degree_rules(OLD), training(**degrees, **COPIES)) == ["zero"]
        assert not broken(TARGET.degree_rules(NEW), training(**degrees, **COPIES))
    assert not broken(TARGET.degree_rules(OLD), training(data=4, **COPIES))
    assert not broken(TARGET.degree_rules(OLD), training(tensor=4, **COPIES))


def test_experts_are_split_only_by_version_0_2():
    # [torchtitan 0.2.2: `ParallelDims`: ETP is TP or 1; 0.3.0 has no ETP]
    both = training(MIXTURE, tensor=2, data=4, expert=4, expert_tensor=2, **FSDP)
    assert not broken(TARGET.degree_rules(OLD), both)
    assert broken(TARGET.degree_rules(NEW), both) == ["expert-tensor"]
    whole = training(MIXTURE, tensor=2, data=4, expert_tensor=1, **FSDP)
    assert broken(TARGET.degree_rules(OLD), whole) == broken(TARGET.degree_rules(NEW), whole) == ["expert-tensor"]


def test_sequences_are_split_evenly():
    # [torchtitan 0.2.2: `ParallelDims.seq_len_divisor`; 0.3.0: `Trainer.__init__`]
    odd = training(tensor=4, sequence=4 * 1023, **FSDP)
    assert broken(TARGET.degree_rules(OLD), odd) == ["tensor"]
    assert not broken(TARGET.degree_rules(NEW), odd)
    for version, axis in ((OLD, "tensor"), (NEW, "context")):
        assert broken(TARGET.degree_rules(version), training(tensor=4, context=2, sequence=8 * 1023, **FSDP)) == [axis]
        assert not broken(TARGET.degree_rules(version), training(tensor=4, context=2, sequence=16 * 1023, **FSDP))


@BOTH
def test_a_question_has_fully_sharded_training_without_a_pipeline(version):
    space = space_of(asked("torchtitan", DENSE, version=version))
    alone = [each for each in space.legal if each.degrees.pipeline == 1]
    assert any(each.degrees.data == 16 and each.degrees.sharding is Sharding.PARAMETERS for each in alone)
    assert {each.degrees.sharding for each in space.legal} == {"0", "2", "3"}
    assert max(each.degrees.tensor for each in space.legal) == 4
    assert space.excluded[Axis.TENSOR]
    assert "4 heads of keys and values for torchtitan" in str(space.reasons[Axis.TENSOR])
