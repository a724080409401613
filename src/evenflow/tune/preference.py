"""Which row to take: reasons why people refuse a configuration, and the simplest of those that are as good as equal."""

from dataclasses import replace
from enum import StrEnum

from evenflow.model import FULL
from evenflow.predict.memory import fit_probability
from evenflow.predict.parameters import dense_group
from evenflow.predict.training import Sharding, Training
from evenflow.tune.axes import schedule_of
from evenflow.tune.candidate import Candidate
from evenflow.tune.error import uncertain_ns
from evenflow.tune.question import USUAL_CONFIDENCE
from evenflow.tune.tuned import Tuned

AS_GOOD = 0.02
"""Share of the fastest step up to which a longer one counts as equal, where the two cannot be told apart either."""


class Doubt(StrEnum):
    """A reason why people refuse a configuration that fits."""

    MEMORY = "memory"
    """It fits with less than `USUAL_CONFIDENCE`."""
    GATHERED = "gathered"
    """All layers are computed again, and their parameters gathered across nodes, for every microbatch."""


def doubts_of(candidate: Candidate) -> tuple[Doubt, ...]:
    """Return why people would refuse a configuration under its plan."""
    prediction = candidate.prediction
    if candidate.found is None or prediction is None:
        return ()
    limit_bytes = candidate.pricing.question.memory_limit_bytes
    doubts = []
    if fit_probability(prediction.memory, limit_bytes) < USUAL_CONFIDENCE:
        doubts.append(Doubt.MEMORY)
    training, plan = candidate.training, candidate.found.plan
    gathers = training.degrees.sharding is Sharding.PARAMETERS
    is_full = sum(map(sum, plan.recompute.get(FULL, ()))) == plan.num_layers
    if gathers and is_full and _crosses_nodes(candidate, training):
        doubts.append(Doubt.GATHERED)
    return tuple(doubts)


def _crosses_nodes(candidate: Candidate, training: Training) -> bool:
    group = dense_group(training.degrees)
    return candidate.pricing.question.topology.spread(group).domains > 1


def mechanisms(candidate: Candidate) -> int:
    """Return how many things beside copies of the model a configuration needs: the fewer, the simpler it is.

    One each for tensor, context, expert, expert tensor and pipeline parallelism, several chunks, a schedule of its own,
    gradients or parameters that are shared out, an optimizer on the host, and each kind of recomputation.
    """
    training = candidate.training
    degrees = training.degrees
    kinds = () if candidate.plan is None else candidate.plan.used_kinds
    return len(kinds) + sum(
        (
            degrees.tensor > 1,
            degrees.context > 1,
            degrees.expert > 1,
            training.model.experts is not None and (degrees.expert_tensor or 1) > 1,
            degrees.pipeline > 1,
            degrees.chunks > 1,
            schedule_of(training) not in ("1f1b", "interleaved"),
            degrees.sharding in (Sharding.GRADIENTS, Sharding.PARAMETERS),
            degrees.optimizer_offload > 0,
        )
    )


def simplest_first(tuned: Tuned) -> Tuned:
    """Return a ranking whose first row is the simplest of those that are as good as the fastest.

    These cannot be told apart from it, and are predicted to be longer by `AS_GOOD` of its step at most. Rows with fewer
    doubts come before simpler ones, and faster ones are first among equals. The others keep their order.
    """
    fastest = tuned.fastest
    if fastest is None or fastest.prediction is None:
        return tuned
    reach_ns = fastest.step_ns + min(uncertain_ns(fastest.prediction), AS_GOOD * fastest.step_ns)
    equals = [candidate for candidate in tuned.ranked if candidate.step_ns <= reach_ns]
    first = min(equals, key=lambda one: (len(doubts_of(one)), mechanisms(one), one.step_ns))
    return replace(tuned, ranked=(first, *(one for one in tuned.ranked if one is not first)))
