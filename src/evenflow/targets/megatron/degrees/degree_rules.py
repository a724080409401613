"""What Megatron-LM can split. [Megatron-LM: `validate_args`, `TransformerConfig`, `parallel_state`, `MoELayer`]

Devices of a stage are shared by dense layers, tensor x context x data, and experts, expert tensor x expert x copies of
experts; heads of keys and values are copied where there are fewer than tensor ranks. `check_training` holds both.
"""

from evenflow.language import _
from evenflow.predict.layer_work import expert_tensor
from evenflow.tune.axes import Axis
from evenflow.tune.rules import DegreeRule, DegreeRules


def megatron_rules() -> DegreeRules:
    """Return what the degrees of Megatron-LM, and of frameworks that are built on it, must keep to.

    Megatron-FSDP shares out gradients and parameters, without a pipeline.
    """
    return DegreeRules(
        rules=(
            DegreeRule(
                axis=Axis.TENSOR,
                text=_("must be 1 for experts without sequence parallelism"),
                holds=lambda training: (
                    training.model.experts is None or training.degrees.tensor == 1 or training.degrees.sequence_parallel
                ),
            ),
            DegreeRule(
                axis=Axis.EXPERT,
                text=_("must be 1 in fp16"),
                holds=lambda training: training.degrees.expert == 1 or training.precision != "fp16",
            ),
            DegreeRule(
                axis=Axis.EXPERT_TENSOR,
                text=_("must be 1 for experts with biases"),
                holds=lambda training: (
                    training.model.experts is None or not training.model.biases.experts or expert_tensor(training) == 1
                ),
            ),
        )
    )
