"""Bounds that cost little: of the whole space before anything is priced, and of all configurations of a split."""

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import replace
from math import inf

from evenflow.predict.end_work import head_passes, tail_passes
from evenflow.predict.layer_work import layer_passes
from evenflow.predict.passes import Passes
from evenflow.predict.training import Degrees, Sharding, Training
from evenflow.predict.work import Operators
from evenflow.solve.bounds import even_memory_bytes, lowered
from evenflow.tune.bounds import StepBounds
from evenflow.tune.question import TuningQuestion
from evenflow.tune.rows.split import Split


def floor_ns(question: TuningQuestion) -> float:
    """Return a lower bound on the step of every configuration: the model's arithmetic, dealt evenly to all devices.

    Each device computes at the best rate that training reaches. No split needs fewer operations than one device.
    """
    model = question.model
    whole = Training(
        model=model, degrees=Degrees(), microbatch=1, global_batch=1, sequence=question.sequence,
        precision=question.precision, software=question.software,
    )  # fmt: skip
    passes = [(head_passes(whole), 1), (tail_passes(whole), 1)]
    passes += [(layer_passes(whole, kind), count) for kind, count in Counter(model.kinds).items()]
    sequence_ns = sum(count * _arithmetic_ns(question, of_pass) for of_pass, count in passes)
    step_ns = question.topology.accelerator.reached.step_ns
    return lowered(sequence_ns * question.global_batch / question.devices + step_ns)


def _arithmetic_ns(question: TuningQuestion, passes: Passes) -> float:
    """Return the time of the arithmetic alone: infinitely deep products, without memory traffic or launches."""
    accelerator = question.topology.accelerator
    return sum(
        replace(work, moved_bytes=0.0, calls=0, depth=inf if work.depth else 0.0).time_ns(accelerator)
        for work in (*passes.whole_forward, *passes.backward)
        if isinstance(work, Operators)
    )


def split_ns(bounds: StepBounds, split: Split) -> float:
    """Return a lower bound on the step of all configurations of a split; infinite where none fits."""
    if not any(_may_fit(bounds, training) for training in that_hold_least(split)):
        return inf
    return least_work_ns(bounds, split)


def same_work(split: Split) -> Hashable:
    """Return what splits have in common that have the same bound on their work.

    More ranks and fewer copies share the same layers of as many sequences; only ZeRO without a pipeline adds to that.
    """
    degrees = split.first.degrees
    return degrees.tensor, degrees.context, degrees.expert, degrees.expert_tensor, split.first.microbatch


def least_work_ns(bounds: StepBounds, split: Split) -> float:
    """Return a lower bound on the step of all configurations of a split, from its work dealt evenly."""
    # Beside a pipeline stages of ZeRO take no different time with a microbatch, and one of them is priced already.
    least = split.first if split.first.degrees.pipeline == 1 else split.most_shared
    return bounds.work_ns(least)


def that_hold_least(split: Split) -> Iterable[Training]:
    """Return the configurations that may hold the least: with parameters fully sharded (gathered), and without."""
    by_gathering = {kept is Sharding.PARAMETERS: kept for kept in split.shardings}
    for sharding in by_gathering.values():
        part = split.offloads_of(sharding)[-1]
        yield replace(split.first, degrees=replace(split.first.degrees, sharding=sharding, optimizer_offload=part))


def _may_fit(bounds: StepBounds, training: Training) -> bool:
    request = bounds.pricing.request(training)
    assert request.memory_limit_bytes is not None
    return even_memory_bytes(request) <= request.memory_limit_bytes
