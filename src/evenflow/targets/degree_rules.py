"""Rules for degrees that several frameworks have, and what several cannot be told of degrees."""

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.predict.expert_work import expert_tensor
from evenflow.predict.training import Sharding, Training
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.tune.axes import Axis
from evenflow.tune.rules import DegreeRule


def whole_kv_heads() -> DegreeRule:
    """Heads of keys and values are split, and not copied where there are fewer than tensor ranks."""
    return DegreeRule(
        axis=Axis.TENSOR,
        text=lambda training: _("must divide the {count} heads of keys and values", count=training.model.kv_heads),
        holds=lambda training: (
            training.model.latent is not None or training.model.kv_heads % training.degrees.tensor == 0
        ),
    )


def untied_pipeline() -> DegreeRule:
    """The embedding is on another rank than the output layer, and nothing keeps them equal."""
    return DegreeRule(
        axis=Axis.PIPELINE,
        text=_("must be 1 for an output layer that is tied to the embedding"),
        holds=lambda training: training.degrees.pipeline == 1 or not training.model.tied,
    )


def experts_split_sequences() -> DegreeRule:
    """Experts on tensor ranks get the tokens that sequence parallelism leaves on each."""
    return DegreeRule(
        axis=Axis.TENSOR,
        text=_("must be 1 for experts without sequence parallelism"),
        holds=lambda training: (
            training.model.experts is None or training.degrees.tensor == 1 or training.degrees.sequence_parallel
        ),
    )


def context_shares_out() -> DegreeRule:
    """FSDP shares parameters out over data and context ranks."""
    return DegreeRule(
        axis=Axis.ZERO,
        text=_("must be 2 or 3 with several context ranks, over which FSDP shares out as well"),
        holds=lambda training: training.degrees.context == 1 or not is_copied(training),
    )


def experts_in_a_copy() -> DegreeRule:
    """Distributed experts lie on the devices of one copy of the model."""
    return DegreeRule(
        axis=Axis.EXPERT,
        text=_("must divide the tensor x context ranks where parameters are copied"),
        holds=lambda training: not is_copied(training) or _lies_in_a_copy(training),
    )


def copies_alone() -> DegreeRule:
    """Copies of the model are those of DDP, which goes with no other way to split."""
    return DegreeRule(
        axis=Axis.ZERO,
        text=_("must be 2 or 3 beside any other way to split"),
        holds=lambda training: not is_copied(training) or training.degrees.data in (1, training.degrees.devices),
    )


def experts_among_data(*, with_tensor: bool = False) -> DegreeRule:
    """Experts are distributed over the data ranks, or over these and the tensor ranks, whatever context ranks."""

    def ranks(training: Training) -> int:
        return training.degrees.data * (training.degrees.tensor if with_tensor else 1)

    return DegreeRule(
        axis=Axis.EXPERT,
        text=lambda training: (
            _("must divide the {count} data x tensor ranks", count=ranks(training))
            if with_tensor
            else _("must divide the {count} data ranks", count=ranks(training))
        ),
        holds=lambda training: ranks(training) % training.degrees.expert == 0,
    )


def is_copied(training: Training) -> bool:
    """Whether data-parallel devices share nothing out."""
    return training.degrees.sharding is Sharding.NOTHING


def _lies_in_a_copy(training: Training) -> bool:
    degrees = training.degrees
    return degrees.expert == 1 or degrees.tensor * degrees.context % (degrees.expert * expert_tensor(training)) == 0


def check_shares_gradients(planned: PlannedDegrees, *, title: str) -> None:
    """Raise InputError where devices share out the optimizer's state alone, which the framework never does."""
    degrees = planned.degrees
    if degrees.sharding is Sharding.OPTIMIZER and degrees.data * degrees.context > 1:
        raise InputError(
            value="ZeRO-1",
            rule=_(
                "must be data parallelism, ZeRO-2 or FSDP: {title} does not share out the optimizer's state alone",
                title=title,
            ),
            place=_("the plan"),
            remedy=_("plan again with --zero 2 (tune: --fix zero=2)"),
        )


def check_no_capacity(planned: PlannedDegrees, *, title: str) -> None:
    """Raise InputError where experts have a capacity, which the framework does not know."""
    if planned.expert_capacity is not None:
        raise InputError(
            value=planned.expert_capacity,
            rule=_("must be no capacity of experts: {title} drops no token", title=title),
            place=_("the plan"),
            remedy=_("plan again without --expert-capacity, or run the plan with evenflow run"),
        )
