"""What the degrees of a framework must keep to, as data."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.predict.expert_work import expert_tensor
from evenflow.predict.training import Sharding, Training
from evenflow.tune.axes import Axis, value_of


@dataclass(frozen=True, slots=True, kw_only=True)
class DegreeRule:
    """A rule for one axis."""

    axis: Axis
    """What breaks it."""
    text: str | Callable[[Training], str]
    """What must hold, as the rule of an `InputError`: ``must be at least ...``; a translated sentence, or a function
    that makes one for a training.
    """
    holds: Callable[[Training], bool]
    """Whether it holds: with any chunks, microbatch and schedule, or with none."""

    def rule(self, training: Training) -> str:
        """Return the sentence for this training."""
        return self.text if isinstance(self.text, str) else self.text(training)


@dataclass(frozen=True, slots=True, kw_only=True)
class DegreeRules:
    """What a framework can split, beside what no training can (`check_training`)."""

    shardings: tuple[Sharding, ...] = (Sharding.NOTHING, Sharding.OPTIMIZER, Sharding.GRADIENTS, Sharding.PARAMETERS)
    """Stages of ZeRO without a pipeline."""
    pipeline_shardings: tuple[Sharding, ...] = (Sharding.NOTHING, Sharding.OPTIMIZER)
    """Stages of ZeRO beside a pipeline."""
    context_exchange: str = "ring"
    sequence_parallel: bool = True
    """Whether tensor-parallel devices split the sequence between their products."""
    splits_experts: bool = True
    """Whether the matrices of an expert can be split as `tensor`, beside experts that are distributed."""
    rules: tuple[DegreeRule, ...] = ()

    def known(self, pipeline: int) -> tuple[Sharding, ...]:
        """Return the stages of ZeRO that exist with so many pipeline ranks."""
        return self.shardings if pipeline == 1 else self.pipeline_shardings

    def refusals(self, training: Training, *, title: str) -> Iterator[InputError]:
        """Yield the reasons why the framework cannot run `training`; `title` names it, and is empty without one."""
        degrees = training.degrees
        known = self.known(degrees.pipeline)
        if degrees.sharding not in known:
            yield _refusal(training, Axis.ZERO, _("must be one of {names}", names=", ".join(known)), title)
        if training.model.experts is not None and not self.splits_experts:
            usual = 1 if degrees.expert > 1 else degrees.tensor
            if expert_tensor(training) != usual:
                yield _refusal(training, Axis.EXPERT_TENSOR, _("must be {number}", number=usual), title)
        for rule in self.rules:
            if not rule.holds(training):
                yield _refusal(training, rule.axis, rule.rule(training), title)


def _refusal(training: Training, axis: Axis, rule: str, title: str) -> InputError:
    named = _("{rule} for {title}", rule=rule, title=title) if title else rule
    return InputError(value=value_of(training, axis), rule=named, place=axis)
