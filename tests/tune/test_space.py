"""The space against one that is made by trying every combination of numbers, and asking all rules of each."""

from collections import Counter
from dataclasses import replace
from itertools import product

import pytest

from evenflow.predict.host_update import HostUpdate
from evenflow.predict.prediction import predict
from evenflow.predict.training import Degrees, Sharding, Training
from evenflow.schedule import FAMILIES
from evenflow.targets.registry import all_targets
from evenflow.tune.axes import Axis
from evenflow.tune.question import TuningQuestion
from evenflow.tune.rows.split import dealt
from evenflow.tune.space import most_of, refusals, space_of
from tests.targets.questions import DENSE, MIXTURE, asked

RULES = ("megatron", "mindformers", "torchtitan", "deepspeed", "paddle", "torch")
"""Frameworks with rules of their own; those of most others are the rules of one of these, and a few more."""
QUESTIONS = [
    asked(name, model, devices=devices)
    for name in all_targets()
    for model, devices in ((DENSE, 8), (MIXTURE, 8 if name in RULES else 4))
]
FIXED = {
    name: [
        asked(name, model, devices=devices, **kept)
        for model, devices, kept in ((replace(DENSE, tied=True), 12, {Axis.TENSOR: 2}), (MIXTURE, 4, {Axis.EXPERT: 2}))
    ]
    for name in all_targets()
}
"""With a number that is fixed: that a space keeps to it is no matter of the rules of a framework."""
QUESTIONS += [question for name in RULES for question in FIXED[name]]
QUESTIONS.append(replace(asked("megatron", DENSE, devices=8), allow_empty=True))
WIDE = [
    question
    for name in all_targets()
    if name not in RULES
    for question in (asked(name, MIXTURE, devices=8), *FIXED[name])
]


def every(question: TuningQuestion) -> list[Training]:
    """All combinations of numbers whose product is that of the devices."""
    most, model, fixed = most_of(question), question.model, question.fixed
    numbers = range(1, question.devices + 1)
    found = []
    for tensor, context, pipeline, data in product(numbers, repeat=4):
        if tensor * context * pipeline * data != question.devices or pipeline > model.layers:
            continue
        if tensor > most[Axis.TENSOR] or context > most[Axis.CONTEXT]:
            continue
        of_stage = tensor * context * data
        count = model.experts.count if model.experts else 1
        for expert in (each for each in range(1, min(count, of_stage) + 1) if of_stage % each == 0):
            splits: list[int | None] = [None]
            if model.experts:
                usual = 1 if expert > 1 else tensor
                splits = sorted({1, tensor}) if question.rules.splits_experts else [usual]  # type: ignore[assignment]
            for split, sharding in product(splits, question.rules.known(pipeline)):
                of_copy = max(1, question.global_batch // data)
                sizes = [each for each in range(1, most[Axis.MICROBATCH] + 1) if of_copy % each == 0]
                if Axis.MICROBATCH in fixed:
                    sizes = [int(fixed[Axis.MICROBATCH])]
                for microbatch, name in product(sizes, question.schedules):
                    family = FAMILIES[name]
                    if pipeline == 1 and name != question.schedules[0]:
                        continue
                    for chunks in range(1, most[Axis.CHUNKS] + 1):
                        if pipeline == 1 and chunks > 1 and not family.num_chunks:
                            continue
                        if family.num_chunks not in (None, 0, chunks) or chunks < family.fewest_chunks:
                            continue
                        if pipeline * chunks * question.min_layers > model.layers:
                            continue
                        degrees = Degrees(
                            tensor=tensor, context=context, pipeline=pipeline, data=data, expert=expert, chunks=chunks,
                            expert_tensor=split, sharding=sharding, context_exchange=question.rules.context_exchange,
                            sequence_parallel=question.rules.sequence_parallel,
                        )  # fmt: skip
                        found.append(
                            Training(
                                model=model,
                                degrees=degrees,
                                microbatch=microbatch,
                                schedule=name,
                                global_batch=question.global_batch,
                                sequence=question.sequence,
                                precision=question.precision,
                                software=question.software,
                                layout=dealt(model.layers, pipeline, chunks),
                            )
                        )
    kept = {axis: value for axis, value in fixed.items() if axis in (Axis.TENSOR, Axis.EXPERT)}
    return [one for one in found if all(getattr(one.degrees, str(axis)) == value for axis, value in kept.items())]


@pytest.mark.parametrize(
    "question",
    [*QUESTIONS, *(pytest.param(question, marks=pytest.mark.slow) for question in WIDE)],
    ids=lambda one: f"{one.title}-{one.devices}",
)
def test_all_combinations_one_by_one(question: TuningQuestion) -> None:
    excluded: Counter[str] = Counter()
    legal = set()
    combinations = every(question)
    for one in combinations:
        broken = next(refusals(question, one), None)
        if broken is None:
            legal.add(one)
        else:
            excluded[broken.place] += 1
    space = space_of(question)
    assert dict(space.excluded) == dict(excluded)
    assert set(space.reasons) == set(excluded)
    assert len(set(space.legal)) == len(space.legal) == sum(len(split) for split in space.splits)
    left = legal - set(space.legal)
    assert set(space.legal) <= legal
    for one in left:  # the same as another that is there
        others = [replace(one, degrees=replace(one.degrees, sharding=each)) for each in Sharding]
        (same,) = [other for other in others if other in space.legal and other.degrees.sharding < "3"]
        first, second = (predict(each, question.topology) for each in (one, same))
        assert (first.step_ns, first.memory) == (second.step_ns, second.memory)


def test_rows_are_different_splits() -> None:
    for question in QUESTIONS:
        rows = [
            replace(split.first, schedule=None, layout=(), degrees=replace(split.first.degrees, chunks=1, sharding="0"))
            for split in space_of(question).splits
        ]
        assert len(set(rows)) == len(rows)


def test_what_there_was_no_time_for_is_not_claimed() -> None:
    question = asked("megatron", MIXTURE, devices=16)
    whole = space_of(question)
    looks = iter(range(1000))
    part = space_of(question, is_over=lambda: next(looks) >= 5)
    assert whole.is_whole
    assert not part.is_whole
    assert part.splits == whole.splits[: len(part.splits)]
    assert 0 < len(part.splits) < len(whole.splits)


@pytest.mark.parametrize("target", ["megatron", "deepspeed"])
def test_every_configuration_is_there_with_and_without_state_on_the_host(target: str) -> None:
    plain = asked(target, DENSE, devices=8)
    question = replace(plain, optimizer_offload=0.5, host_update=HostUpdate(link_bytes_per_s=10**10))
    legal = space_of(question).legal
    without = [replace(one, host_update=None) for one in legal if not one.degrees.optimizer_offload]
    assert without == space_of(plain).legal
    offloaded = {one for one in legal if one.degrees.optimizer_offload}
    expected = set()
    for one in legal:
        part = replace(one, degrees=replace(one.degrees, optimizer_offload=0.5))
        if next(refusals(question, part), None) is None:
            expected.add(part)
    assert offloaded == expected
    assert all(one.degrees.sharding is not Sharding.PARAMETERS for one in offloaded)
    assert len(set(legal)) == len(legal) == sum(len(split) for split in space_of(question).splits)
