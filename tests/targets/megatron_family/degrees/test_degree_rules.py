"""What Megatron-LM can split, rule by rule, and a question that is asked for it."""

from collections import Counter
from dataclasses import replace

import pytest

from evenflow.predict.expert_work import expert_tensor
from evenflow.predict.training import Sharding
from evenflow.predict.transformer import Biases
from evenflow.targets.megatron_family.degrees.degree_rules import megatron_rules
from evenflow.targets.registry import all_targets
from evenflow.tune.space import space_of
from tests.targets.questions import DENSE, MIXTURE, asked, broken, training

RULES = megatron_rules()


def test_experts_with_tensor_ranks_need_sequence_parallelism():
    # [Megatron-LM: `MoELayer.forward`]
    for sequence_parallel, expected in ((False, ["tensor"]), (True, [])):
        assert broken(RULES, training(MIXTURE, tensor=2, sequence_parallel=sequence_parallel)) == expected
    assert not broken(RULES, training(DENSE, tensor=2, sequence_parallel=False))
    assert not broken(RULES, training(MIXTURE, tensor=1, data=2, sequence_parallel=False))


def test_distributed_experts_are_not_trained_in_fp16():
    # [Megatron-LM: `validate_args`]
    assert broken(RULES, training(MIXTURE, data=4, expert=4, precision="fp16")) == ["expert"]
    assert not broken(RULES, training(MIXTURE, data=4, expert=4))
    assert not broken(RULES, training(MIXTURE, data=4, precision="fp16"))


def test_experts_with_biases_are_not_split():
    # [Megatron-LM: `TransformerConfig.__post_init__`]
    biased = replace(MIXTURE, biases=Biases(experts=True))
    assert broken(RULES, training(biased, tensor=4, expert_tensor=4)) == ["expert-tensor"]
    assert not broken(RULES, training(biased, tensor=4, expert_tensor=1))
    assert not broken(RULES, training(MIXTURE, tensor=4, expert_tensor=4))


@pytest.mark.parametrize("sharding", Sharding)
def test_more_than_the_optimizer_is_shared_out_only_without_a_pipeline(sharding):
    # [Megatron-FSDP]
    assert not broken(RULES, training(data=4, sharding=sharding))
    is_more = sharding in (Sharding.GRADIENTS, Sharding.PARAMETERS)
    assert broken(RULES, training(data=4, pipeline=2, sharding=sharding)) == (["zero"] if is_more else [])


def test_devices_of_experts_are_those_of_dense_layers():
    space = space_of(asked("megatron", MIXTURE))
    ways = Counter()
    for each in space.legal:
        degrees = each.degrees
        split = expert_tensor(each)
        of_stage = degrees.tensor * degrees.context * degrees.data
        assert degrees.pipeline * of_stage == 16
        assert of_stage % (degrees.expert * split) == 0
        ways["experts over dense ranks"] += degrees.tensor * degrees.expert * split > of_stage
        ways["split experts"] += degrees.expert > 1 and split > 1
        ways["interleaved"] += degrees.chunks > 1
        ways["no pipeline"] += degrees.pipeline == 1
        assert degrees.pipeline == 1 or degrees.sharding in (Sharding.NOTHING, Sharding.OPTIMIZER)
    assert all(ways[way] for way in ("experts over dense ranks", "split experts", "interleaved", "no pipeline"))


def test_frameworks_on_megatron_have_its_rules():
    built = (
        "megatron",
        "megatron-adapter",
        "megatron-bridge",
        "mindspeed",
        "flagscale",
        "ms-swift",
        "primus",
        "verl",
        "roll",
    )
    broken_one = training(MIXTURE, tensor=2, sequence_parallel=False)
    for name in built:
        target = all_targets()[name]
        for version in target.versions[-2:]:
            assert broken(target.degree_rules(version), broken_one) == ["tensor"], name


def test_megatron_lm_2_splits_layers_and_copies_them():
    rules = all_targets()["megatron"].degree_rules("0.1")
    assert broken(rules, training(DENSE, tensor=2, data=2, sharding=Sharding.NOTHING)) == []
    assert broken(rules, training(DENSE, context=2, data=2)) == ["zero", "context"]
    assert broken(rules, training(MIXTURE, data=2, sharding=Sharding.NOTHING)) == ["expert"]


def test_before_layouts_experts_are_split_as_other_layers():
    rules = all_targets()["megatron"].degree_rules("0.2")
    changes = {"tensor": 2, "expert": 2, "data": 2, "sequence_parallel": True}
    assert broken(rules, training(MIXTURE, **changes, expert_tensor=2)) == []
    assert broken(rules, training(MIXTURE, **changes, expert_tensor=1)) == ["expert-tensor"]
