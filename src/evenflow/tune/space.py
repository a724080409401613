"""Every configuration that can be run: all combinations of the axes that keep every rule.

Devices are pipeline x tensor x context x data; experts lie across the devices of a stage, so that expert and expert
tensor split the same devices again and do not multiply. [Megatron-Core, Parallelism Guide, MoE Parallel Folding]
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.predict.limits.checks import check_training
from evenflow.predict.training import Degrees, Sharding, Training
from evenflow.schedule import FAMILIES
from evenflow.solve.for_target import decided_layers
from evenflow.tune.axes import Axis, Value
from evenflow.tune.question import TuningQuestion
from evenflow.tune.rows.split import Split, dealt, split_of

_Value = TypeVar("_Value", bound=Value)
_ON_ONE_RANK = "1f1b-overlap"
"""The schedule with pairs without a pipeline."""
_LEAST_TOKENS = 1024
"""Tokens of a sequence that a device has at least, unless the user allows a larger context degree."""
_MOST_MICROBATCH = 16
_MOST_CHUNKS = 8


@dataclass(kw_only=True)
class Space:
    """The configurations that keep every rule, by their splits, and how many each rule excludes."""

    splits: list[Split] = field(default_factory=list)
    excluded: Counter[str] = field(default_factory=Counter)
    """Number of configurations by the axis whose rule is the first that they break."""
    reasons: dict[str, InputError] = field(default_factory=dict)
    """The first broken rule of each axis, as an example."""
    is_whole: bool = True
    """Whether there was time to look at all combinations."""

    @property
    def legal(self) -> list[Training]:
        """Every configuration."""
        return [training for split in self.splits for training in split.trainings()]

    def exclude(self, refusal: InputError, count: int) -> None:
        """Count configurations that a rule excludes."""
        if count:
            self.excluded[refusal.place] += count
            self.reasons.setdefault(refusal.place, refusal)


def space_of(question: TuningQuestion, *, is_over: Callable[[], bool] = lambda: False) -> Space:
    """Return the space of a question, as far as it is known when `is_over`: at least one split, if any is legal.

    What degrees break, all microbatches and orders of work with them break: each rule is asked once.
    """
    space, most = Space(), most_of(question)
    tried: dict[tuple[int, int, bool], _Orders] = {}
    for degrees, shardings in _degrees(question, most):
        if space.splits and is_over():
            space.is_whole = False
            break
        orders = list(_orders(question, degrees.pipeline, most))
        if not orders:
            continue
        sizes = _batches(question, degrees, most)
        every = [_training(question, degrees, microbatch, *orders[0]) for microbatch in sizes]
        kept = _legal_shardings(space, question, every[-1], shardings, count=len(every) * len(orders))
        for first in every if kept else ():
            key = degrees.pipeline, first.microbatches, degrees.expert > 1
            if key not in tried:
                tried[key] = _Orders.of(question, first, orders)
            for refusal in tried[key].refused:
                space.exclude(refusal, len(kept))
            if tried[key].legal:
                space.splits.append(split_of(first, kept, tried[key].legal, _legal_offloads(question, first, kept)))
    return space


@dataclass(frozen=True, slots=True)
class _Orders:
    """Orders of work of so many ranks and microbatches: those that are legal, and the rules that the others break."""

    legal: tuple[tuple[str, int], ...]
    refused: tuple[InputError, ...]

    @classmethod
    def of(cls, question: TuningQuestion, training: Training, orders: list[tuple[str, int]]) -> "_Orders":
        legal, refused = [], []
        for schedule, chunks in orders:
            ordered = replace(training, schedule=schedule, degrees=replace(training.degrees, chunks=chunks))
            refusal = next(_order_refusals(question, ordered), None)
            if refusal is None:
                legal.append((schedule, chunks))
            else:
                refused.append(refusal)
        return cls(tuple(legal), tuple(refused))


def _legal_shardings(
    space: Space, question: TuningQuestion, training: Training, shardings: Sequence[Sharding], *, count: int
) -> list[Sharding]:
    """Return the stages of ZeRO that are legal with these degrees, and exclude `count` configurations of each other.

    The last microbatch is the largest, with the fewest of them: the rule of the batch holds for all or for none.
    """
    always, kept = next(_training_refusals(question, training), None), []
    for sharding in shardings:
        sharded = replace(training, degrees=replace(training.degrees, sharding=sharding))
        refusal = next(question.rules.refusals(sharded, title=question.title), always)
        if refusal is None:
            kept.append(sharding)
        else:
            space.exclude(refusal, count)
    return kept


def _legal_offloads(
    question: TuningQuestion, training: Training, shardings: Sequence[Sharding]
) -> dict[Sharding, tuple[float, ...]]:
    """Return the parts of the optimizer's state that the host can keep, by the stage of ZeRO."""

    def is_legal(sharding: Sharding, part: float) -> bool:
        degrees = replace(training.degrees, sharding=sharding, optimizer_offload=part)
        return next(refusals(question, replace(training, degrees=degrees)), None) is None

    return {
        sharding: tuple(part for part in question.offloads if not part or is_legal(sharding, part))
        for sharding in shardings
    }


def most_of(question: TuningQuestion) -> dict[Axis, int]:
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


def refusals(question: TuningQuestion, training: Training) -> Iterator[InputError]:
    """Yield the rules that a configuration breaks, whatever is decided or the largest value."""
    yield from question.rules.refusals(training, title=question.title)
    broken = next(_training_refusals(question, training), None)
    if broken is not None:
        yield broken
    else:
        yield from _order_refusals(question, training)


def _training_refusals(question: TuningQuestion, training: Training) -> Iterator[InputError]:
    try:
        check_training(training, question.topology.accelerator)
    except InputError as error:
        yield error


def _order_refusals(question: TuningQuestion, training: Training) -> Iterator[InputError]:
    """Yield the rules that numbers of ranks, chunks and microbatches break."""
    degrees = training.degrees
    try:
        sizes = training.sizes
        assert training.schedule is not None
        if FAMILIES[training.schedule].has_pairs and degrees.expert == 1:
            yield InputError(
                value=degrees.expert,
                rule=_("must be at least 2 under {schedule}", schedule=training.schedule),
                place=Axis.EXPERT,
            )
        if question.abilities is not None and degrees.pipeline > 1:  # what it runs of a pipeline
            yield from question.abilities.refusals(sizes, training.schedule, title=question.title)
            if training.schedule in question.abilities.limits:
                own = question.abilities.under(training.schedule)
                yield from own.layer_refusals(0, question.model.predicted_tokens, title=question.title)
            decided_layers(question.abilities, question.model.layers, sizes, place="layers")
    except InputError as error:
        yield error


def _degrees(question: TuningQuestion, most: dict[Axis, int]) -> Iterator[tuple[Degrees, list[Sharding]]]:
    """Yield all combinations of degrees but chunks, legal or not, with the stages of ZeRO that are tried."""
    model, devices = question.model, question.devices
    experts = model.experts
    for tensor in _values(question, Axis.TENSOR, divisors(devices, most=most[Axis.TENSOR])):
        for context in _values(question, Axis.CONTEXT, divisors(devices // tensor, most=most[Axis.CONTEXT])):
            left = devices // (tensor * context)
            pipelines = divisors(left, most=_most_ranks(question, left))
            for pipeline in _values(question, Axis.PIPELINE, pipelines):
                data = left // pipeline
                if question.fixed.get(Axis.DATA, data) != data:
                    continue
                stages = _values(question, Axis.ZERO, question.rules.known(pipeline))
                shardings = sorted(Sharding(str(stage)) for stage in stages)
                of_stage = tensor * context * data
                ways = divisors(of_stage, most=min(experts.count, most.get(Axis.EXPERT, of_stage))) if experts else [1]
                for expert in _values(question, Axis.EXPERT, ways) if shardings else ():
                    for split in _expert_tensors(question, tensor, expert):
                        degrees = Degrees(
                            tensor=tensor,
                            pipeline=pipeline,
                            context=context,
                            data=data,
                            expert=expert,
                            expert_tensor=split,
                            sequence_parallel=question.rules.sequence_parallel,
                            sharding=shardings[0],
                            context_exchange=question.rules.context_exchange,
                        )
                        yield degrees, shardings


def _most_ranks(question: TuningQuestion, devices: int) -> int:
    """Return the most pipeline ranks: more than layers only where cells may be empty, and the user says how many."""
    layers, asked = question.model.layers, question.most.get(Axis.PIPELINE)
    if question.allow_empty:
        fixed = question.fixed.get(Axis.PIPELINE)
        return min(devices, max(layers, int(fixed)) if fixed is not None else asked or layers)
    return min(devices, layers, asked or layers)


def _batches(question: TuningQuestion, degrees: Degrees, most: dict[Axis, int]) -> list[int]:
    """Return the microbatches that are tried.

    Where the batch cannot be split so, one combination stays, for which the rule that it breaks is counted.
    """
    fixed = question.fixed.get(Axis.MICROBATCH)
    of_copy = max(question.global_batch // degrees.data, 1)
    return divisors(of_copy, most=most[Axis.MICROBATCH]) if fixed is None else [int(fixed)]


def _training(question: TuningQuestion, degrees: Degrees, microbatch: int, schedule: str, chunks: int) -> Training:
    return Training(
        model=question.model,
        degrees=replace(degrees, chunks=chunks),
        microbatch=microbatch,
        global_batch=question.global_batch,
        sequence=question.sequence,
        precision=question.precision,
        schedule=schedule,
        layout=dealt(question.model.layers, degrees.pipeline, chunks),
        recompute_sets=question.recompute_sets,
        software=question.software,
        host_update=question.host_update,
    )


def _orders(question: TuningQuestion, pipeline: int, most: dict[Axis, int]) -> Iterator[tuple[str, int]]:
    """Yield schedules with numbers of chunks; without a pipeline all orders are the same but for pairs."""
    names: Iterable[str] = question.schedules if pipeline > 1 else one_rank_schedules(question)
    for name in _values(question, Axis.SCHEDULE, names):
        family = FAMILIES[str(name)]
        last = 1 if pipeline == 1 else most[Axis.CHUNKS]
        least = question.min_layers_of(str(name))
        if least:
            last = min(last, question.model.layers // pipeline)
        counts = [family.num_chunks] if family.num_chunks else range(max(family.fewest_chunks, 1), last + 1)
        for chunks in _values(question, Axis.CHUNKS, counts):
            if pipeline * int(chunks) * least <= question.model.layers:
                yield str(name), int(chunks)


def one_rank_schedules(question: TuningQuestion) -> tuple[str, ...]:
    """Return the schedules that differ without a pipeline: one of those that are tried without pairs, and one with."""
    plain = [name for name in question.schedules if not FAMILIES[name].has_pairs]
    paired = any(FAMILIES[name].has_pairs for name in question.schedules)
    is_run = question.abilities is None or _ON_ONE_RANK in question.abilities.schedules
    return (*plain[:1], *([_ON_ONE_RANK] if paired and is_run else []))


def _expert_tensors(question: TuningQuestion, tensor: int, expert: int) -> Iterator[int | None]:
    experts = question.model.experts
    if experts is None:
        yield None
        return
    offered = [1, tensor] if question.rules.splits_experts else [1 if expert > 1 else tensor]
    for split in _values(question, Axis.EXPERT_TENSOR, dict.fromkeys(offered)):
        yield int(split)


def _values(question: TuningQuestion, axis: Axis, values: Iterable[_Value]) -> Iterator[_Value]:
    """Yield the values that the user leaves open."""
    fixed = question.fixed.get(axis)
    for value in values:
        if fixed is None or str(value) == str(fixed):
            yield value


def divisors(number: int, *, most: int) -> list[int]:
    """Return the numbers up to `most` that divide a number."""
    return [divisor for divisor in range(1, min(number, most) + 1) if number % divisor == 0]
