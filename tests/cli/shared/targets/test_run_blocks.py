"""What can be copied to run a plan: every framework that runs it as it is comes first, then what comes near."""

from itertools import groupby

import pytest

from evenflow.cli.shared.targets.run_blocks import run_blocks
from evenflow.model import Plan
from evenflow.profiles.plan_file import PlanFile
from evenflow.targets.registry import all_targets, target_named
from tests.networks import plain_network


@pytest.fixture(scope="module")
def planned() -> PlanFile:
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=((3, 5),), recompute={"full": ((2, 0),)})
    return PlanFile(plan=plan, network=plain_network(8), communication=None, memory_limit_bytes=None)


def test_frameworks_that_run_the_plan_come_first(planned: PlanFile):
    blocks = run_blocks(planned)
    exact = [block.note.startswith("runs the plan as it is") for block in blocks]
    assert exact == sorted(exact, reverse=True)
    titles = [title for title, _blocks in groupby(block.title for block in blocks)]
    assert len(titles) == len(set(titles))  # blocks of one framework stand together
    for target in all_targets().values():
        if target.can_run(planned.plan):
            assert f"{target.title} {target.versions[-1]}" in titles
    for block in blocks:
        assert block.text.strip()
        assert block.what


def test_text_is_what_the_framework_is_written(planned: PlanFile):
    target = target_named("mindformers")
    written = target.write(planned.plan, target.versions[-1])
    own = [block.text for block in run_blocks(planned) if block.title == f"{target.title} {target.versions[-1]}"]
    assert own[0] == written.pieces[0].text


def test_what_is_lost_is_said(planned: PlanFile):
    target = target_named("megatron")
    title = f"{target.title} {target.versions[-1]}"
    notes = {block.note for block in run_blocks(planned) if block.title == title}
    assert notes
    assert all("recompute is one number" in note and "peak" in note for note in notes)


def test_the_framework_that_was_planned_for_comes_before_all(planned: PlanFile):
    first = target_named("torchtitan")
    assert run_blocks(planned, first=first)[0].title.startswith(first.title)


def test_without_time_only_what_runs_as_it_is(planned: PlanFile):
    assert all(block.note.startswith("runs the plan as it is") for block in run_blocks(planned, time_limit_s=0.0))
