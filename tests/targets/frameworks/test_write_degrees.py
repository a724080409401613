"""Whatever the rules of a framework allow, it can be told: every legal training of small questions is written."""

import random
from dataclasses import replace

import pytest

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.predict.training import Sharding, Training
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.targets.refusal import refusal
from evenflow.targets.registry import all_targets
from evenflow.tune.axes import schedule_of
from evenflow.tune.space import space_of
from tests.targets.questions import DENSE, MIXTURE, asked

WRITTEN = [name for name, target in all_targets().items() if target.write_degrees is not None]
WITHOUT_CAPACITY = (
    "deepspeed", "paddle", "colossalai", "mindformers", "mindformers-pynative", "nemo-automodel", "torchtitan",
)  # fmt: skip


def planned(training: Training) -> PlannedDegrees:
    return PlannedDegrees(
        degrees=training.degrees,
        replicas=1,
        microbatch=training.microbatch,
        num_microbatches=training.microbatches,
        sequence=training.sequence,
    )


def plan_of(training: Training) -> Plan:
    return Plan(
        schedule=schedule_of(training), num_microbatches=training.microbatches, layers=training.layout, recompute={}
    )


def test_all_frameworks_but_two_are_told_degrees():
    assert set(all_targets()) - set(WRITTEN) == {"torch", "megatron-deepspeed"}


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("model", [DENSE, MIXTURE], ids=["dense", "mixture"])
def test_what_is_legal_is_written(name, model):
    target = all_targets()[name]
    legal = space_of(asked(name, model)).legal
    number = random.Random(7)
    written = 0
    for training in number.sample(legal, min(len(legal), 120)):
        plan = plan_of(training)
        if training.degrees.pipeline > 1 and refusal(plan, target.abilities(target.versions[-1]), title=name):
            continue
        found = target.write_degrees(plan, planned(training), target.versions[-1])
        text = "\n".join(piece.text for piece in found.pieces) + "\n".join(found.notes)
        for unset in ("=None", "'None'", ": None"):
            assert unset not in text
        assert str(training.degrees.tensor) in text
        written += 1
    assert written


@pytest.mark.parametrize("name", WRITTEN)
def test_what_a_framework_does_not_share_out_is_refused(name):
    target = all_targets()[name]
    version = target.versions[-1]
    refused = set(Sharding) - set(target.degree_rules(version).pipeline_shardings)
    training = next(each for each in space_of(asked(name, DENSE)).legal if each.degrees.pipeline > 1)
    plan = plan_of(training)
    for sharding in refused:
        changed = replace(training, degrees=replace(training.degrees, sharding=sharding))
        with pytest.raises(InputError, match=r"must be"):
            target.write_degrees(plan, planned(changed), version)


@pytest.mark.parametrize("name", WRITTEN)
def test_a_capacity_of_experts_is_written_or_refused(name):
    target = all_targets()[name]
    legal = space_of(asked(name, MIXTURE)).legal
    training = next(one for one in legal if one.degrees.expert > 1 and one.degrees.pipeline == 1)
    capped = replace(planned(training), expert_capacity=1.25)
    if name in WITHOUT_CAPACITY:
        with pytest.raises(InputError, match="drops no token"):
            target.write_degrees(plan_of(training), capped, target.versions[-1])
    else:
        written = target.write_degrees(plan_of(training), capped, target.versions[-1])
        assert "1.25" in written.pieces[-1].text or "1.25" in written.pieces[0].text
