"""Bounds that cost little: of the whole space before anything is priced, and of all configurations of a split."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from math import inf

from evenflow.model import Request
from evenflow.predict.end_work import head_passes, tail_passes
from evenflow.predict.layer_work import Passes, layer_passes
from evenflow.predict.training import Degrees, Sharding, Training
from evenflow.predict.work import Operators
from evenflow.tune.bounds import Bounds
from evenflow.tune.question import Question
from evenflow.tune.rows.split import Split

_SAFE = 1 - 1e-9
"""Factor by which a bound is lowered for rounding in floating point."""


def floor_ns(question: Question) -> float:
    """Return a lower bound on the step of every configuration: the model's arithmetic, dealt evenly to all devices.

    Each device computes at the best rate that training reaches. No split needs fewer operations than one device.
    """
    model = question.model
    whole = Training(
        model=model, degrees=Degrees(), microbatch=1, global_batch=1, sequence=question.sequence,
        precision=question.precision, software=question.software,
    )  # fmt: skip
    kinds = Counter((model.has_experts(layer), model.has_window(layer)) for layer in range(model.layers))
    passes = [(head_passes(whole), 1), (tail_passes(whole), 1)]
    passes += [(layer_passes(whole, has_experts=one, has_window=two), count) for (one, two), count in kinds.items()]
    sequence_ns = sum(count * _arithmetic_ns(question, each) for each, count in passes)
    step_ns = question.topology.accelerator.reached.step_ns
    return (sequence_ns * question.global_batch / question.devices + step_ns) * _SAFE


def _arithmetic_ns(question: Question, passes: Passes) -> float:
    """Return the time of the operations alone, of sums without end and without launches."""
    accelerator = question.topology.accelerator
    return sum(
        replace(work, moved_bytes=0.0, calls=0, depth=inf if work.depth else 0.0).time_ns(accelerator)
        for work in (*passes.forward, *passes.backward)
        if isinstance(work, Operators)
    )


def split_ns(bounds: Bounds, split: Split) -> float:
    """Return a lower bound on the step of all configurations of a split; infinite where none fits."""
    if not any(_may_fit(bounds, training) for training in that_hold_least(split)):
        return inf
    # Beside a pipeline stages of ZeRO take no different time with a microbatch, and one of them is priced already.
    least = split.first if split.first.degrees.pipeline == 1 else split.most_shared
    return bounds.work_ns(least)


def that_hold_least(split: Split) -> Iterable[Training]:
    """Return the configurations of which one holds the least: whole parameters take room while they are gathered."""
    by_gathering = {each is Sharding.PARAMETERS: each for each in split.shardings}
    for sharding in by_gathering.values():
        yield replace(split.first, degrees=replace(split.first.degrees, sharding=sharding))


def _may_fit(bounds: Bounds, training: Training) -> bool:
    request = bounds.pricing.request(training)
    assert request.memory_limit_bytes is not None
    return least_held(request) <= request.memory_limit_bytes


def least_held(request: Request) -> float:
    """Return a number of bytes that one of the ranks holds at least: the state, and once all activations, dealt evenly.

    When a rank begins the backward of its first microbatch, it has the activations of all of its layers.
    """
    network = request.network
    layers = sum(
        run.count * (run.layer.parameter_bytes + min(mode.activation_bytes for mode in run.layer.modes.values()))
        for run in network.runs
    )
    every = layers + network.head.parameter_bytes + network.tail.parameter_bytes
    return every / request.sizes.num_ranks + network.constant_bytes
