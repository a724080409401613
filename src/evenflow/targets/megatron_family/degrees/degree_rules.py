"""What Megatron-LM can split. [Megatron-LM: `validate_args`, `TransformerConfig`, `parallel_state`, `MoELayer`]

Devices of a stage are shared by dense layers, tensor x context x data, and experts, expert tensor x expert x copies of
experts; heads of keys and values are split where there are fewer than tensor ranks (not yet in 0.13.0).
`check_training` holds both.
"""

from evenflow.language import _
from evenflow.predict.layer_work import expert_tensor
from evenflow.predict.training import Sharding
from evenflow.targets.degree_rules import experts_split_sequences
from evenflow.tune.axes import Axis
from evenflow.tune.rules import DegreeRule, DegreeRules

_ALL: tuple[Sharding, ...] = tuple(Sharding)
_OPTIMIZER = (Sharding.NOTHING, Sharding.OPTIMIZER)


def megatron_rules(*, has_fsdp: bool = True) -> DegreeRules:
    """Return what the degrees of Megatron-LM, and of frameworks that are built on it, must keep to.

    Megatron-FSDP shares out gradients and parameters, without a pipeline; `has_fsdp` says whether there is a way to it.
    """
    return DegreeRules(
        shardings=_ALL if has_fsdp else _OPTIMIZER,
        pipeline_shardings=_OPTIMIZER,
        rules=(
            experts_split_sequences(),
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
        ),
    )
