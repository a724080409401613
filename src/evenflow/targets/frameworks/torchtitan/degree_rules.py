"""What torchtitan can split. [torchtitan: `ParallelDims`, `Decoder.Config.update_from_config`, `parallelize_llama`]

Data parallelism is FSDP: it always shares out the optimizer's state and gradients, and parameters where it gives them
up after the forward. It shares them out over data and context ranks; experts lie across these and tensor ranks.
"""

from collections.abc import Callable

from evenflow.language import _
from evenflow.predict.layer_work import expert_tensor
from evenflow.predict.training import Sharding, Training
from evenflow.targets.degree_rules import (
    context_shares_out,
    copies_alone,
    experts_in_a_copy,
    untied_pipeline,
    whole_kv_heads,
)
from evenflow.targets.frameworks.torchtitan.values import NEW
from evenflow.tune.axes import Axis
from evenflow.tune.rules import DegreeRule, DegreeRules

_SHARED = (Sharding.NOTHING, Sharding.GRADIENTS, Sharding.PARAMETERS)


def degree_rules(version: str) -> DegreeRules:
    """Return what the degrees must keep to."""
    shared = (whole_kv_heads(), untied_pipeline(), context_shares_out(), experts_in_a_copy())
    return DegreeRules(
        shardings=_SHARED,
        pipeline_shardings=_SHARED,
        splits_experts=version != NEW,
        rules=(*shared, *(_new_rules() if version == NEW else _old_rules())),
    )


def _old_rules() -> tuple[DegreeRule, ...]:
    """Sequences are split in any case."""
    experts = DegreeRule(
        axis=Axis.EXPERT_TENSOR,
        text=lambda training: _("must be {number}", number=training.degrees.tensor),
        holds=lambda training: (
            training.model.experts is None
            or training.degrees.expert > 1
            or expert_tensor(training) == training.degrees.tensor
        ),
    )
    parts = _sequence(Axis.TENSOR, lambda training: 2 * training.degrees.tensor * training.degrees.context)
    return (parts, copies_alone(), experts)


def _new_rules() -> tuple[DegreeRule, ...]:
    return (_sequence(Axis.CONTEXT, _parts),)


def _sequence(axis: Axis, parts: Callable[[Training], int]) -> DegreeRule:
    return DegreeRule(
        axis=axis,
        text=lambda training: _(
            "must be such that {parts} divides the sequence of {tokens} tokens",
            parts=parts(training),
            tokens=training.sequence,
        ),
        holds=lambda training: training.sequence % parts(training) == 0,
    )


def _parts(training: Training) -> int:
    degrees = training.degrees
    split = degrees.tensor if degrees.sequence_parallel else 1
    return split * (2 * degrees.context if degrees.context > 1 else 1)
