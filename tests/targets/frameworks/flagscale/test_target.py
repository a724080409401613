import ast

import pytest
from hypothesis import given

from evenflow.model import Plan
from evenflow.profiles.yaml_values import load_document
from evenflow.targets.frameworks.flagscale.target import TARGET
from evenflow.targets.refusal import refusal
from evenflow.targets.target import GivenSizes
from tests.targets.pages import page_of
from tests.targets.strategies import canonical, plans

UNEVEN = Plan(schedule="1f1b", num_microbatches=8, layers=((5, 7, 7, 7, 6),), recompute={"full": ((3, 2, 2, 0, 0),)})


def text_of(plan: Plan) -> str:
    (piece,) = TARGET.write(plan, "2.0").pieces
    assert piece.syntax == "yaml"
    return piece.text


def test_the_section_of_an_uneven_plan() -> None:
    assert text_of(UNEVEN) == (
        "system:\n"
        "  pipeline_model_parallel_size: 5\n"
        '  recompute_granularity: "full"\n'
        '  recompute_method: "block"\n'
        "  recompute_num_layers: 3\n"
        "  recompute_granularity_per_stage_micro_batch: [[3, 8, 1], [2, 8, 0]]\n"
        "  recompute_method_per_stage_micro_batch: [[5, 8, 1]]\n"
        "  recompute_num_layers_per_stage_micro_batch: [[1, 8, 3], [2, 8, 2], [2, 8, 0]]\n"
        "  hetero:\n"
        "    enable_hetero: true\n"
        "    hetero_pipeline_layer_split: [5, 7, 7, 7, 6]\n"
    )


def test_without_recomputation_nothing_is_said_of_it_and_the_note_says_so() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=((3, 2),))
    assert "recompute" not in text_of(plan)
    assert any("leave out the other keys" in note for note in TARGET.write(plan, "2.0").notes)


def test_all_layers_under_select_are_selective() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=((3, 2),), recompute={"select": ((3, 2),)})
    assert '  recompute_granularity: "selective"\n  recompute_modules: ["core_attn"]\n' in text_of(plan)
    assert "per_stage" not in text_of(plan)


@pytest.mark.parametrize(
    ("plan", "place"),
    [
        (Plan(schedule="interleaved", num_microbatches=4, layers=((1, 1), (1, 1))), "schedule"),
        (Plan(schedule="1f1b", num_microbatches=4, layers=((2, 0),)), "layers, chunk 0, rank 1"),
        (
            Plan(schedule="1f1b", num_microbatches=4, layers=((2, 2),), recompute={"select": ((1, 2),)}),
            "recompute",
        ),
    ],
)
def test_what_heterogeneous_training_cannot_run_is_refused(plan: Plan, place: str) -> None:
    refused = refusal(plan, TARGET.abilities("2.0"), title=TARGET.title)
    assert refused is not None
    assert refused.place == place


def per_stage(rows: object) -> list[list[int]]:
    """Values by stage and microbatch, as FlagScale reads rows: texts of lists [stages, microbatches, value, ...]."""
    assert isinstance(rows, list)
    stages = []
    for row in (ast.literal_eval(str(row)) for row in rows):
        values = [value for count, value in zip(row[1::2], row[2::2], strict=True) for _ in range(count)]
        stages += [values] * row[0]
    return stages


@given(plan=plans(TARGET.abilities("2.0")))
def test_a_written_plan_is_read_back(plan: Plan) -> None:
    assert TARGET.read is not None
    text = "experiment: a run\n" + text_of(plan) + "model:\n  tie_word_embeddings: false\n"
    assert TARGET.recognise(text, "train.yaml")
    found = TARGET.read(text, "train.yaml", GivenSizes(num_microbatches=plan.num_microbatches))
    assert canonical(found.plan) == canonical(plan)
    assert found.unknown == ()


@given(plan=plans(TARGET.abilities("2.0")))
def test_every_plan_is_in_its_section(plan: Plan) -> None:
    document = load_document(text_of(plan), file="train.yaml").value
    assert isinstance(document, dict)
    system = document["system"]
    assert system["hetero"]["hetero_pipeline_layer_split"] == list(plan.layers[0])
    full = plan.recompute.get("full", ((0,) * plan.num_ranks,))[0]
    if not any(full):
        assert "recompute_num_layers" not in system
        return
    expected = [[count] * plan.num_microbatches for count in full]
    assert per_stage(system["recompute_num_layers_per_stage_micro_batch"]) == expected
    assert per_stage(system["recompute_method_per_stage_micro_batch"]) == [[1] * plan.num_microbatches] * plan.num_ranks
    on = per_stage(system["recompute_granularity_per_stage_micro_batch"])
    assert on == [[int(count > 0)] * plan.num_microbatches for count in full]


def test_the_page_shows_what_is_written() -> None:
    for version in TARGET.versions:
        for piece in TARGET.write(UNEVEN, version).pieces:
            assert piece.text in page_of(TARGET)
