import pytest

from evenflow.model import Plan
from evenflow.profiles.yaml_values import load_document
from evenflow.targets.frameworks.mindformers.target import TARGET
from evenflow.targets.frameworks.mindformers.training_yaml import apply_plan
from evenflow.targets.frameworks.mindformers.values import SCHEDULES, training_values


def plan(schedule: str) -> Plan:
    return Plan(schedule=schedule, num_microbatches=4, layers=((3, 3),))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_can_be_run(schedule: str):
    assert TARGET.can_run(plan(schedule))


def test_a_v_cannot_be_run():
    assert not TARGET.can_run(Plan(schedule="zbv", num_microbatches=4, layers=((2, 2), (2, 2))))


def test_what_is_refused_when_the_training_starts_cannot_be_run():
    few = Plan(schedule="1f1b", num_microbatches=1, layers=((3, 3),))
    assert training_values(few)
    assert not TARGET.can_run(few)


def test_it_is_written_as_the_fragment_that_a_file_gets():
    written = TARGET.write(plan("1f1b"), "1.9.0")
    (piece,) = written.pieces
    assert piece.text.startswith("# with num_layers 6 and use_parallel True\nmodel:\n  model_config:\n")
    file = apply_plan("{}", file="x", plan=plan("1f1b"))
    assert load_document(piece.text, file="x").value == load_document(file, file="x").value
    assert written.environment == {}


def test_the_order_that_needs_a_variable_has_it_beside():
    less = Plan(schedule="interleaved-less-memory", num_microbatches=4, layers=((3, 3), (3, 3)))
    assert TARGET.write(less, "1.9.0").environment == {"ENABLE_LESS_MEM_VPP": "1"}
