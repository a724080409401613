"""What Megatron-LM can split. [Megatron-LM: `validate_args`, `TransformerConfig`, `parallel_state`, `MoELayer`]

Devices of a stage are shared by dense layers, tensor x context x data, and experts, expert tensor x expert x copies of
experts; heads of keys and values are split where there are fewer than tensor ranks (not yet in 0.13.0).
`check_training` holds both.
"""

from dataclasses import replace

from evenflow.language import _
from evenflow.predict.expert_work import expert_tensor
from evenflow.predict.training import Degrees, Sharding
from evenflow.targets.degree_rules import experts_split_sequences
from evenflow.tune.axes import Axis
from evenflow.tune.rules import DegreeRule, DegreeRules

_ALL: tuple[Sharding, ...] = tuple(Sharding)
_OPTIMIZER = (Sharding.NOTHING, Sharding.OPTIMIZER)


def can_offload(degrees: Degrees) -> bool:
    """Return whether the host can keep the optimizer's state, which Megatron-LM then shares out among all copies."""
    alone = degrees.data * degrees.context == 1
    return degrees.sharding is Sharding.OPTIMIZER or (degrees.sharding is Sharding.NOTHING and alone)


def offload_rule() -> DegreeRule:
    """Return what the host's part of the optimizer's state must keep to."""
    return DegreeRule(
        axis=Axis.ZERO,
        text=_("must be 1 where the host keeps the optimizer's state"),
        holds=lambda training: not training.degrees.optimizer_offload or can_offload(training.degrees),
    )


def older_rules(*, has_axes: bool) -> DegreeRules:
    """Return what the degrees of a Megatron-LM before core 0.13 must keep to, or of one before core.

    Experts are split as the other layers are. Without `has_axes` there are tensor and data ranks alone, and no experts.
    """
    of_core = megatron_rules(has_fsdp=False)
    split_alike = DegreeRule(
        axis=Axis.EXPERT_TENSOR,
        text=lambda training: _("must be {number}", number=training.degrees.tensor),
        holds=lambda training: training.model.experts is None or expert_tensor(training) == training.degrees.tensor,
    )
    if has_axes:
        return replace(of_core, rules=(*of_core.rules, split_alike))
    alone = (
        DegreeRule(
            axis=Axis.EXPERT,
            text=_("must be 1, of a model without experts"),
            holds=lambda training: training.model.experts is None,
        ),
        DegreeRule(axis=Axis.CONTEXT, text=_("must be 1"), holds=lambda training: training.degrees.context == 1),
    )
    nothing = (Sharding.NOTHING,)
    return DegreeRules(shardings=nothing, pipeline_shardings=nothing, sequence_parallel=False, rules=alone)


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
