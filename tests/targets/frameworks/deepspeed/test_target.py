"""DeepSpeed: what it can run, and the text that it gets."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from evenflow.adapters.deepspeed import planned_layers
from evenflow.model import FULL, SELECT, Plan
from evenflow.targets.frameworks.deepspeed.target import TARGET
from evenflow.targets.refusal import refusal
from tests.adapters.layer_lists import entries_for, full_plans
from tests.adapters.stub_packages import class_name, deepspeed, is_recomputed

__all__ = ["deepspeed"]
VERSION = TARGET.versions[-1]
ABILITIES = TARGET.abilities(VERSION)
PLAN = Plan(schedule="1f1b", num_microbatches=8, layers=((1, 3, 2, 2),), recompute={FULL: ((1, 0, 2, 1),)})


def form(entries: list[Any]) -> list[tuple[str, bool]]:
    return [(class_name(entry), is_recomputed(entry, build="build")) for entry in entries]


def test_the_pieces_of_a_plan() -> None:
    module, use, configuration = TARGET.write(PLAN, VERSION).pieces
    head, _, function = module.text.partition("\n\n\n")
    assert head == (
        "from typing import Any\n\n"
        "LAYERS = [1, 3, 2, 2]\n"
        "RECOMPUTED = [1, 0, 2, 1]\n"
        'PIPELINE = {"num_stages": 4, "partition_method": "type:^StageMarker_"}'
    )
    assert function.startswith("def staged(entries: list[Any], ")
    assert "evenflow" not in module.text
    assert module.file_name == "evenflow_stages.py"
    assert use.text == (
        "from deepspeed.pipe import PipelineModule\n"
        "from evenflow_stages import LAYERS, PIPELINE, RECOMPUTED, staged\n\n"
        "# head, tail: the entries of your list before the first body layer and after the last one\n"
        "layers = staged(layers, LAYERS, RECOMPUTED, head=1, tail=1)\n"
        "module = PipelineModule(layers, **PIPELINE, loss_fn=loss_fn)\n"
    )
    assert json.loads(configuration.text) == {
        "gradient_accumulation_steps": 8,
        "pipeline": {"activation_checkpoint_interval": 0},
    }


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=full_plans())
def test_the_written_module_does_what_the_adapter_does(deepspeed: None, plan: Plan) -> None:
    assert refusal(plan, ABILITIES, title=TARGET.title) is None
    names: dict[str, Any] = {}
    exec(TARGET.write(plan, VERSION).pieces[0].text, names)
    entries = entries_for(plan, head=2, tail=1)
    written = names["staged"](entries, names["LAYERS"], names["RECOMPUTED"], head=2, tail=1)
    assert form(written) == form(planned_layers(entries_for(plan, head=2, tail=1), plan, head=2, tail=1))
    assert names["PIPELINE"] == {"num_stages": plan.num_ranks, "partition_method": "type:^StageMarker_"}


def test_the_written_module_refuses_another_number_of_layers(deepspeed: None) -> None:
    names: dict[str, Any] = {}
    exec(TARGET.write(PLAN, VERSION).pieces[0].text, names)
    entries = entries_for(PLAN, head=1, tail=1)
    with pytest.raises(
        ValueError, match=r"9 entries must be \[2, 3, 2, 3\], one or more in each stage, head and tail included"
    ):
        names["staged"](entries[:-1], names["LAYERS"], names["RECOMPUTED"], head=1, tail=1)


@pytest.mark.parametrize(
    ("plan", "place"),
    [
        (Plan(schedule="interleaved", num_microbatches=8, layers=((2, 2), (2, 2))), "schedule"),
        (Plan(schedule="1f1b", num_microbatches=8, layers=((2, 0, 2),)), "layers, chunk 0, rank 1"),
        (Plan(schedule="1f1b", num_microbatches=8, layers=((2, 2),), recompute={SELECT: ((1, 0),)}), "recompute"),
        (Plan(schedule="1f1b", num_microbatches=8, sequence_splits=2, layers=((2, 2),)), "sequence_splits"),
    ],
)
def test_what_deepspeed_cannot_run(plan: Plan, place: str) -> None:
    error = refusal(plan, ABILITIES, title=TARGET.title)
    assert error is not None
    assert error.place == place
