"""Every configuration that can be run: all combinations of the axes that keep every rule.

Devices are pipeline x tensor x context x data; experts lie across the devices of a stage, so that expert and expert
tensor split the same devices again and do not multiply. [Megatron-Core, Parallelism Guide, MoE Parallel Folding]
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeVar

from evenflow.errors import InputError
from evenflow.model import Sizes
from evenflow.predict.limits.checks import check_training
from evenflow.predict.training import Degrees, Sharding, Training
from evenflow.schedule import FAMILIES
from evenflow.solve.for_target import decided_layers
from evenflow.tune.axes import Axis, Value
from evenflow.tune.question import Question

_Value = TypeVar("_Value", bound=Value)
_LEAST_TOKENS = 1024
"""Tokens of a sequence that a device has at least, unless the user allows a larger context degree."""
_MOST_MICROBATCH = 16
_MOST_CHUNKS = 8


@dataclass(kw_only=True)
class Space:
    """The configurations that keep every rule, and how many each rule excludes."""

    legal: list[Training] = field(default_factory=list)
    excluded: Counter[str] = field(default_factory=Counter)
    """Number of configurations by the axis whose rule is the first that they break."""
    reasons: dict[str, InputError] = field(default_factory=dict)
    """The first broken rule of each axis, as an example."""


def space_of(question: Question) -> Space:
    """Return the space of a question."""
    space = Space()
    for training in _combinations(question):
        refusal = next(refusals(question, training), None)
        if refusal is None:
            space.legal.append(training)
        else:
            space.excluded[refusal.place] += 1
            space.reasons.setdefault(refusal.place, refusal)
    return space


def most_of(question: Question) -> dict[Axis, int]:
    """Return the largest value of each axis that has one: what the user says, or else what is usual."""
    tokens = max(1, question.sequence // _LEAST_TOKENS)
    usual = {
        Axis.TENSOR: question.topology.domain_devices,
        Axis.CONTEXT: 2 ** (tokens.bit_length() - 1),
        Axis.MICROBATCH: _MOST_MICROBATCH,
        Axis.CHUNKS: _MOST_CHUNKS,
    }
    fixed = {axis: int(value) for axis, value in question.fixed.items() if axis in usual}
    return {axis: max(most, fixed.get(axis, 1)) for axis, most in usual.items()} | dict(question.most)


def refusals(question: Question, training: Training) -> Iterator[InputError]:
    """Yield the rules that a configuration breaks, whatever is decided or the largest value."""
    yield from question.rules.refusals(training, title=question.title)
    try:
        check_training(training, question.topology.accelerator)
        sizes = Sizes(
            num_ranks=training.degrees.pipeline,
            num_chunks=training.degrees.chunks,
            num_microbatches=training.microbatches,
        )
        assert training.schedule is not None
        if question.abilities is not None and training.degrees.pipeline > 1:  # what it runs of a pipeline
            yield from question.abilities.refusals(sizes, training.schedule, title=question.title)
            decided_layers(question.abilities, question.model.layers, sizes, place="layers")
    except InputError as error:
        yield error


def _combinations(question: Question) -> Iterator[Training]:
    """Yield all combinations of values, legal or not."""
    model, devices, most = question.model, question.devices, most_of(question)
    experts = model.experts
    for tensor in _values(question, Axis.TENSOR, divisors(devices, most=most[Axis.TENSOR])):
        for context in _values(question, Axis.CONTEXT, divisors(devices // tensor, most=most[Axis.CONTEXT])):
            left = devices // (tensor * context)
            pipelines = divisors(left, most=min(model.layers, most.get(Axis.PIPELINE, left)))
            for pipeline in _values(question, Axis.PIPELINE, pipelines):
                data = left // pipeline
                if question.fixed.get(Axis.DATA, data) != data:
                    continue
                of_stage = tensor * context * data
                ways = divisors(of_stage, most=min(experts.count, most.get(Axis.EXPERT, of_stage))) if experts else [1]
                for expert in _values(question, Axis.EXPERT, ways):
                    for split in _expert_tensors(question, tensor, expert):
                        for sharding in _values(question, Axis.ZERO, question.rules.known(pipeline)):
                            degrees = Degrees(
                                tensor=tensor,
                                pipeline=pipeline,
                                context=context,
                                data=data,
                                expert=expert,
                                expert_tensor=split,
                                sequence_parallel=question.rules.sequence_parallel,
                                sharding=Sharding(str(sharding)),
                                context_exchange=question.rules.context_exchange,
                            )
                            yield from _with_batch(question, degrees, most)


def _with_batch(question: Question, degrees: Degrees, most: dict[Axis, int]) -> Iterator[Training]:
    fixed = question.fixed.get(Axis.MICROBATCH)
    # Where the batch cannot be split so, one combination stays, for which the rule that it breaks is counted.
    of_copy = max(question.global_batch // degrees.data, 1)
    for microbatch in divisors(of_copy, most=most[Axis.MICROBATCH]) if fixed is None else [int(fixed)]:
        for schedule, chunks in _orders(question, degrees.pipeline, most):
            yield Training(
                model=question.model,
                degrees=replace(degrees, chunks=chunks),
                microbatch=microbatch,
                global_batch=question.global_batch,
                sequence=question.sequence,
                precision=question.precision,
                schedule=schedule,
                layout=dealt(question.model.layers, degrees.pipeline, chunks),
                software=question.software,
            )


def _orders(question: Question, pipeline: int, most: dict[Axis, int]) -> Iterator[tuple[str, int]]:
    """Yield schedules with numbers of chunks; without a pipeline all orders of whole backwards are the same."""
    if pipeline == 1:
        names: Iterable[str] = question.schedules[:1]
    else:
        names = question.schedules
    for name in _values(question, Axis.SCHEDULE, names):
        family = FAMILIES[str(name)]
        last = 1 if pipeline == 1 else min(most[Axis.CHUNKS], question.model.layers // pipeline)
        counts = [family.num_chunks] if family.num_chunks else range(max(family.fewest_chunks, 1), last + 1)
        for chunks in _values(question, Axis.CHUNKS, counts):
            if pipeline * int(chunks) <= question.model.layers:  # every cell holds a layer
                yield str(name), int(chunks)


def _expert_tensors(question: Question, tensor: int, expert: int) -> Iterator[int | None]:
    experts = question.model.experts
    if experts is None:
        yield None
        return
    offered = [1, tensor] if question.rules.splits_experts else [1 if expert > 1 else tensor]
    for split in _values(question, Axis.EXPERT_TENSOR, dict.fromkeys(offered)):
        yield int(split)


def _values(question: Question, axis: Axis, values: Iterable[_Value]) -> Iterator[_Value]:
    """Yield the values that the user leaves open."""
    fixed = question.fixed.get(axis)
    for value in values:
        if fixed is None or str(value) == str(fixed):
            yield value


def divisors(number: int, *, most: int) -> list[int]:
    """Return the numbers up to `most` that divide a number."""
    return [each for each in range(1, min(number, most) + 1) if number % each == 0]


def dealt(layers: int, pipeline: int, chunks: int) -> tuple[tuple[int, ...], ...]:
    """Return the layers of every cell [chunk][rank] as evenly as they can be dealt."""
    cells = pipeline * chunks
    each, rest = divmod(layers, cells)
    return tuple(tuple(each + (chunk * pipeline + rank < rest) for rank in range(pipeline)) for chunk in range(chunks))
