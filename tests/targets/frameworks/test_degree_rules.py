"""What each framework can split: for every rule a training that breaks it, one that keeps it, and where it stands."""

from dataclasses import replace

import pytest

from evenflow.errors import InputError
from evenflow.predict.training import Sharding
from evenflow.targets.registry import all_targets
from evenflow.tune.space import space_of
from tests.targets.questions import DENSE, MIXTURE, asked, broken, training

TIED = replace(DENSE, tied=True)
NOTHING, OPTIMIZER, GRADIENTS, PARAMETERS = Sharding
CASES = {
    # [DeepSpeed: `PipelineEngine.__init__`: ZeRO-2 and ZeRO-3 are incompatible with pipeline parallelism]
    ("deepspeed", "zero"): (
        (DENSE, {"pipeline": 2, "data": 2, "sharding": GRADIENTS}),
        (DENSE, {"pipeline": 2, "data": 2, "sharding": OPTIMIZER}),
    ),
    # [DeepSpeed: `PipeModelDataParallelTopology` has the axes pipe, data and model]
    ("deepspeed", "context"): ((DENSE, {"pipeline": 2, "context": 2}), (DENSE, {"context": 2, "tensor": 2})),
    # [DeepSpeed: `groups._create_expert_and_data_parallel`]
    ("deepspeed", "expert"): ((MIXTURE, {"data": 2, "tensor": 2, "expert": 4}), (MIXTURE, {"data": 4, "expert": 4})),
    # [DeepSpeed: `DeepSpeedEngine`: MoE not supported with Stage 3]
    ("deepspeed", "zero of experts"): (
        (MIXTURE, {"data": 4, "sharding": PARAMETERS}),
        (MIXTURE, {"data": 4, "sharding": GRADIENTS}),
    ),
    # [Paddle: `EPHybridCommunicateGroup`: sep_degree and dp_degree must be 1 in MoE]
    ("paddle", "context"): (
        (MIXTURE, {"context": 2, "data": 2, "expert": 2}),
        (MIXTURE, {"context": 2, "data": 2, "expert_tensor": 1}),
    ),
    ("paddle", "zero"): (
        (MIXTURE, {"data": 4, "expert": 4, "sharding": NOTHING}),
        (MIXTURE, {"data": 4, "expert": 4, "sharding": OPTIMIZER}),
    ),
    ("paddle", "expert-tensor"): (
        (MIXTURE, {"data": 4, "tensor": 2, "expert": 2, "expert_tensor": 2}),
        (MIXTURE, {"data": 4, "tensor": 2, "expert": 2, "expert_tensor": 1}),
    ),
    # [ColossalAI: `MistralPolicy`: the number of key_value heads must be divisible by tensor parallel size]
    ("colossalai", "tensor"): ((DENSE, {"tensor": 8}), (DENSE, {"tensor": 4})),
    # [ColossalAI: `HybridParallelPlugin`: zero stage must be 0 or 1 when using pipeline parallelism]
    ("colossalai", "zero"): (
        (DENSE, {"pipeline": 2, "data": 2, "sharding": GRADIENTS}),
        (DENSE, {"data": 2, "sharding": GRADIENTS}),
    ),
    ("colossalai", "zero of parameters"): (
        (DENSE, {"data": 2, "sharding": PARAMETERS}),
        (DENSE, {"data": 2, "sharding": OPTIMIZER}),
    ),
    # [ColossalAI: `HybridParallelPlugin`: one sequence_parallelism_mode]
    ("colossalai", "context"): ((DENSE, {"tensor": 2, "context": 2}), (DENSE, {"context": 2, "data": 2})),
    # [ColossalAI: `MoeHybridParallelPlugin`: dp_size should be divisible by ep_size]
    ("colossalai", "expert"): (
        (MIXTURE, {"data": 2, "tensor": 2, "expert": 4, "expert_tensor": 2}),
        (MIXTURE, {"data": 4, "tensor": 2, "expert": 4, "expert_tensor": 2}),
    ),
    ("colossalai", "expert-tensor"): (
        (MIXTURE, {"data": 4, "tensor": 2, "expert": 4}),
        (MIXTURE, {"data": 4, "tensor": 2, "expert": 4, "expert_tensor": 2}),
    ),
    # [ColossalAI: `MoeHybridParallelPlugin`: ZeRO-2 is set to 1]
    ("colossalai", "zero of experts"): (
        (MIXTURE, {"data": 4, "sharding": GRADIENTS}),
        (MIXTURE, {"data": 4, "sharding": OPTIMIZER}),
    ),
    # [NeMo AutoModel: `parallelizer`: num_key_value_heads // tp_size]
    ("nemo-automodel", "tensor"): (
        (DENSE, {"tensor": 8, "sharding": PARAMETERS}),
        (DENSE, {"tensor": 4, "sharding": PARAMETERS}),
    ),
    # [NeMo AutoModel: `hf_utils`: Pipeline parallelism does not support tie_word_embeddings=True]
    ("nemo-automodel", "pipeline"): (
        (TIED, {"pipeline": 2, "sharding": PARAMETERS}),
        (DENSE, {"pipeline": 2, "sharding": PARAMETERS}),
    ),
    # [NeMo AutoModel: `mesh_utils`: DDP usecase is not supported by FSDP2, and DDP not with others]
    ("nemo-automodel", "zero"): (
        (DENSE, {"tensor": 2, "data": 4, "sharding": NOTHING}),
        (DENSE, {"data": 4, "sharding": NOTHING}),
    ),
    ("nemo-automodel", "zero of the optimizer"): (
        (DENSE, {"data": 4, "sharding": OPTIMIZER}),
        (DENSE, {"data": 4, "sharding": GRADIENTS}),
    ),
    ("nemo-automodel", "expert-tensor"): (
        (MIXTURE, {"tensor": 2, "data": 4, "expert": 2, "expert_tensor": 2, "sharding": PARAMETERS}),
        (MIXTURE, {"tensor": 2, "data": 4, "expert": 2, "sharding": PARAMETERS}),
    ),
    # [MindFormers: `ParallelismConfig`: PyNative tensor parallelism requires sequence_parallel=True]
    ("mindformers-pynative", "tensor"): (
        (DENSE, {"tensor": 2, "sequence_parallel": False, "sharding": PARAMETERS}),
        (DENSE, {"tensor": 2, "sharding": PARAMETERS}),
    ),
    # [MindFormers: `ParallelDims`: ep must divide dp_shard * cp * tp]
    ("mindformers-pynative", "expert"): (
        (MIXTURE, {"data": 8, "expert": 4, "sharding": NOTHING}),
        (MIXTURE, {"data": 8, "expert": 4, "sharding": PARAMETERS}),
    ),
    ("mindformers-pynative", "zero"): (
        (DENSE, {"context": 2, "data": 2, "sharding": NOTHING}),
        (DENSE, {"context": 2, "data": 2, "sharding": GRADIENTS}),
    ),
    # [MindFormers: `LLamaAttentionInterleave`: n_kv_head must be a multiple of model_parallel]
    ("mindformers", "tensor"): ((DENSE, {"tensor": 8}), (DENSE, {"tensor": 4})),
    # [MindFormers: `check_rules`]
    ("mindformers", "tensor of experts"): (
        (MIXTURE, {"tensor": 2, "sequence_parallel": False}),
        (MIXTURE, {"tensor": 2}),
    ),
    # [MindFormers: `FFNGroupedGEMM.shard`]
    ("mindformers", "expert"): (
        (MIXTURE, {"data": 2, "context": 2, "tensor": 2, "expert": 8}),
        (MIXTURE, {"data": 2, "context": 2, "tensor": 2, "expert": 4}),
    ),
    ("mindformers", "zero"): (
        (DENSE, {"data": 4, "sharding": PARAMETERS}),
        (DENSE, {"pipeline": 2, "data": 4, "sharding": GRADIENTS}),
    ),
    # Frameworks on Megatron-LM that have no setting for Megatron-FSDP.
    ("ms-swift", "zero"): ((DENSE, {"data": 4, "sharding": GRADIENTS}), (DENSE, {"data": 4, "sharding": OPTIMIZER})),
    ("verl", "zero"): ((DENSE, {"data": 4, "sharding": PARAMETERS}), (DENSE, {"data": 4, "sharding": OPTIMIZER})),
}


@pytest.mark.parametrize(("case", "both"), CASES.items(), ids=map(" ".join, CASES))
def test_rules(case, both):
    name, what = case
    target = all_targets()[name]
    rules = target.degree_rules(target.versions[-1])
    (wrong, wrong_degrees), (right, right_degrees) = both
    assert broken(rules, training(wrong, **wrong_degrees)) == [what.split()[0]]
    assert broken(rules, training(right, **right_degrees)) == []


@pytest.mark.parametrize("name", all_targets())
@pytest.mark.parametrize("model", [DENSE, MIXTURE], ids=["dense", "mixture"])
def test_a_question_for_every_framework_has_an_answer(name, model):
    question = asked(name, model)
    space = space_of(question)
    assert space.legal
    for each in space.legal:
        assert not broken(question.rules, each)
        assert each.degrees.devices == question.devices
    for axis, reason in space.reasons.items():
        assert isinstance(reason, InputError)
        assert str(axis) in str(reason)
