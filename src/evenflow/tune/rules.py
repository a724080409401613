"""What the degrees of a framework must keep to, as data."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from evenflow.errors import InputError
from evenflow.predict.training import Sharding, Training
from evenflow.tune.axes import Axis, value_of


@dataclass(frozen=True, slots=True, kw_only=True)
class DegreeRule:
    """A rule for one axis."""

    axis: Axis
    """What breaks it."""
    text: str
    """What must hold, as the rule of an `InputError`: ``must be at least ...``; translated."""
    holds: Callable[[Training], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class DegreeRules:
    """What a framework can split, beside what no training can (`check_training`)."""

    shardings: tuple[Sharding, ...] = (Sharding.NOTHING, Sharding.OPTIMIZER, Sharding.GRADIENTS, Sharding.PARAMETERS)
    """Stages of ZeRO without a pipeline."""
    pipeline_shardings: tuple[Sharding, ...] = (Sharding.NOTHING, Sharding.OPTIMIZER)
    """Stages of ZeRO beside a pipeline."""
    context_exchange: str = "ring"
    splits_experts: bool = True
    """Whether the matrices of an expert can be split as `tensor`, beside experts that are distributed."""
    rules: tuple[DegreeRule, ...] = ()

    def known(self, pipeline: int) -> tuple[Sharding, ...]:
        """Return the stages of ZeRO that exist with so many pipeline ranks."""
        return self.shardings if pipeline == 1 else self.pipeline_shardings

    def refusals(self, training: Training) -> Iterator[InputError]:
        """Yield the reasons why the framework cannot run `training`."""
        for each in self.rules:
            if not each.holds(training):
                yield InputError(value=value_of(training, each.axis), rule=each.text, place=each.axis)
