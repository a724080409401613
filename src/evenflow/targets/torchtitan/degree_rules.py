"""What torchtitan can split. [torchtitan: `ParallelDims`, `Decoder.Config.update_from_config`, `parallelize_llama`]

Data parallelism is FSDP: it always shares out the optimizer's state and gradients, and parameters where it gives them
up after the forward. It shares them out over data and context ranks; experts lie across these and tensor ranks.
"""

from collections.abc import Callable

from evenflow.language import _
from evenflow.predict.layer_work import expert_tensor
from evenflow.predict.training import Sharding, Training
from evenflow.targets.torchtitan.values import NEW
from evenflow.tune.axes import Axis
from evenflow.tune.rules import DegreeRule, DegreeRules

_SHARED = (Sharding.NOTHING, Sharding.GRADIENTS, Sharding.PARAMETERS)


def degree_rules(version: str) -> DegreeRules:
    """Return what the degrees must keep to."""
    return DegreeRules(
        shardings=_SHARED,
        pipeline_shardings=_SHARED,
        splits_experts=version != NEW,
        rules=(*_shared_rules(), *(_new_rules() if version == NEW else _old_rules())),
    )


def _shared_rules() -> tuple[DegreeRule, ...]:
    return (
        DegreeRule(
            axis=Axis.TENSOR,
            text=lambda training: _("must divide the {count} heads of keys and values", count=training.model.kv_heads),
            holds=lambda training: (
                training.model.latent is not None or training.model.kv_heads % training.degrees.tensor == 0
            ),
        ),
        DegreeRule(
            axis=Axis.PIPELINE,
            text=_("must be 1 for an output layer that is tied to the embedding"),
            holds=lambda training: training.degrees.pipeline == 1 or not training.model.tied,
        ),
        DegreeRule(
            axis=Axis.ZERO,
            text=_("must be 2 or 3 with several context ranks, over which FSDP shares out as well"),
            holds=lambda training: training.degrees.context == 1 or not _is_copied(training),
        ),
        DegreeRule(
            axis=Axis.EXPERT,
            text=_("must divide the tensor x context ranks where parameters are copied"),
            holds=lambda training: not _is_copied(training) or _lies_in_a_copy(training),
        ),
    )


def _old_rules() -> tuple[DegreeRule, ...]:
    """Copies are DDP's, which goes with no other way to split; sequences are split in any case."""
    return (
        _sequence(Axis.TENSOR, lambda training: 2 * training.degrees.tensor * training.degrees.context),
        DegreeRule(
            axis=Axis.ZERO,
            text=_("must be 2 or 3 beside any other way to split"),
            holds=lambda training: not _is_copied(training) or training.degrees.data in (1, training.degrees.devices),
        ),
        DegreeRule(
            axis=Axis.EXPERT_TENSOR,
            text=lambda training: _("must be {number}", number=training.degrees.tensor),
            holds=lambda training: (
                training.model.experts is None
                or training.degrees.expert > 1
                or expert_tensor(training) == training.degrees.tensor
            ),
        ),
    )


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


def _is_copied(training: Training) -> bool:
    return training.degrees.sharding is Sharding.NOTHING


def _lies_in_a_copy(training: Training) -> bool:
    """Whether distributed experts lie on the devices of one copy of the model."""
    degrees = training.degrees
    return degrees.expert == 1 or degrees.tensor * degrees.context % (degrees.expert * expert_tensor(training)) == 0
