from typing import Any

import pytest
from hypothesis import given

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.profiles.yaml_values import load_document
from evenflow.schedule import make_schedule
from evenflow.targets.frameworks.primus import TARGET
from evenflow.targets.megatron.layout import parse_layout
from evenflow.targets.refusal import refusal
from tests.targets.pages import page_of
from tests.targets.strategies import plans

INTERLEAVED = Plan(
    schedule="interleaved",
    num_microbatches=8,
    layers=((3, 4, 4, 4), (4, 4, 4, 1)),
    recompute={"full": ((2, 0, 1, 4), (0, 0, 3, 1))},
)
USER_FILE = """\
work_group: ${PRIMUS_TEAM:amd}

modules:
  pre_trainer:
    framework: megatron
    config: pre_trainer.yaml
    model: ${PRIMUS_MODEL:mine}.yaml
    overrides:
      # parallel
      pipeline_model_parallel_size: ${PRIMUS_PP:8}
      num_virtual_stages_per_pipeline_rank: 4
      overlap_grad_reduce: true
      # recompute
      recompute_granularity: full
      recompute_method: block   # the first layers
      recompute_num_layers: 2
"""


def overrides_of(plan: Plan) -> dict[str, Any]:
    (piece,) = TARGET.write(plan, "26.1").pieces
    document = load_document(piece.text, file="experiment.yaml").value
    assert isinstance(document, dict)
    overrides = document["modules"]["pre_trainer"]["overrides"]
    assert isinstance(overrides, dict)
    return overrides


def test_the_overrides_of_an_uneven_plan() -> None:
    (piece,) = TARGET.write(INTERLEAVED, "26.1").pieces
    assert piece.text == (
        "modules:\n"
        "  pre_trainer:\n"
        "    overrides:\n"
        "      pipeline_model_parallel_size: 4\n"
        '      pipeline_model_parallel_layout: "Et*3|(t*4|)*6,tL"\n'
        "      microbatch_group_size_per_vp_stage: null\n"
        "      patch_primus_pipeline: false\n"
        '      recompute_granularity: "full"\n'
        "      recompute_method: null\n"
        "      recompute_num_layers: null\n"
        "      recompute_layer_ids: [0, 1, 7, 11, 12, 13, 14, 23, 24, 25, 27]\n"
    )


def test_zb_h1_runs_in_primus_own_runtime() -> None:
    plan = Plan(schedule="zb-h1", num_microbatches=8, layers=((3, 2),))
    overrides = overrides_of(plan)
    assert overrides["patch_primus_pipeline"] is True
    assert overrides["pp_algorithm"] == "zero-bubble"
    assert overrides["overlap_grad_reduce"] is overrides["overlap_param_gather"] is False


def zero_bubble(num_ranks: int, num_microbatches: int) -> list[str]:
    """The order that Primus describes: after a warm-up of p - r - 1 forwards, F, B and the W of r microbatches before.

    With the names of evenflow: B is I. What is left of the W comes last.
    """
    lines = []
    for rank in range(num_ranks):
        ahead = num_ranks - rank - 1
        line = [f"{rank}F{microbatch}" for microbatch in range(ahead)]
        for microbatch in range(num_microbatches):
            if microbatch + ahead < num_microbatches:
                line.append(f"{rank}F{microbatch + ahead}")
            line.append(f"{rank}I{microbatch}")
            if microbatch >= rank:
                line.append(f"{rank}W{microbatch - rank}")
        line += [f"{rank}W{microbatch}" for microbatch in range(num_microbatches - rank, num_microbatches)]
        lines.append(",".join(line))
    return lines


@pytest.mark.parametrize("num_ranks", [2, 3, 4, 7])
def test_zb_h1_is_the_order_that_primus_describes(num_ranks: int) -> None:
    for num_microbatches in range(num_ranks, 3 * num_ranks):
        ours = make_schedule("zb-h1", num_ranks=num_ranks, num_chunks=1, num_microbatches=num_microbatches)
        lines = [",".join(map(str, ours.order(rank))) for rank in range(num_ranks)]
        assert lines == zero_bubble(num_ranks, num_microbatches)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (Plan(schedule="zbv", num_microbatches=4, layers=((1, 1), (1, 1))), r"must be one of 1f1b, interleaved, zb-h1"),
        (
            Plan(schedule="zb-h1", num_microbatches=2, layers=((1, 1, 1),)),
            r"must be at least the number of ranks under",
        ),
        (
            Plan(schedule="interleaved", num_microbatches=5, layers=((1, 1, 1, 1), (1, 1, 1, 1))),
            r"group size must be a size that Primus runs",
        ),
        (
            Plan(schedule="1f1b", num_microbatches=4, layers=((2, 2),), recompute={"comm": ((1, 1),)}),
            r"recompute must be of the kinds full, select for Primus",
        ),
    ],
)
def test_what_primus_cannot_run_is_refused(plan: Plan, message: str) -> None:
    refused = refusal(plan, TARGET.abilities("26.1"), title=TARGET.title)
    assert refused is not None
    with pytest.raises(InputError, match=message):
        raise refused


def test_a_users_file_gets_the_plan_and_keeps_everything_else() -> None:
    assert TARGET.apply is not None
    assert TARGET.apply(USER_FILE, "mine.yaml", INTERLEAVED) == (
        "work_group: ${PRIMUS_TEAM:amd}\n"
        "\n"
        "modules:\n"
        "  pre_trainer:\n"
        "    framework: megatron\n"
        "    config: pre_trainer.yaml\n"
        "    model: ${PRIMUS_MODEL:mine}.yaml\n"
        "    overrides:\n"
        "      # parallel\n"
        "      pipeline_model_parallel_size: 4\n"
        "      num_virtual_stages_per_pipeline_rank: null\n"
        "      overlap_grad_reduce: true\n"
        "      # recompute\n"
        "      recompute_granularity: full\n"
        "      recompute_method: null   # the first layers\n"
        "      recompute_num_layers: null\n"
        '      pipeline_model_parallel_layout: "Et*3|(t*4|)*6,tL"\n'
        "      patch_primus_pipeline: false\n"
        "      recompute_layer_ids: [0, 1, 7, 11, 12, 13, 14, 23, 24, 25, 27]\n"
    )


def test_layers_of_multi_token_prediction_stay_in_the_layout() -> None:
    assert TARGET.apply is not None
    mine = USER_FILE + "      mtp_num_layers: 2\n"
    assert '"Et*3|(t*4|)*6,tmmL"' in TARGET.apply(mine, "mine.yaml", INTERLEAVED)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("modules: {}\n", r"mine\.yaml: modules must have one module with the framework megatron, got 0"),
        ("{}\n", r"modules must have one module"),
        ("modules:\n  a: {framework: torchtitan}\n", r"modules must have one module"),
        ("modules:\n  a: {framework: megatron, overrides: [1]}\n", r"mine\.yaml: modules\.a\.overrides must be a mapp"),
        ("modules:\n  a: {framework: megatron, overrides: {num_layers: 3}}\n", r"num_layers must be the number of la"),
        ("modules: [", r"mine\.yaml"),
    ],
)
def test_a_file_that_cannot_take_the_plan_is_refused(text: str, message: str) -> None:
    assert TARGET.apply is not None
    with pytest.raises(InputError, match=message):
        TARGET.apply(text, "mine.yaml", INTERLEAVED)


@given(plan=plans(TARGET.abilities("26.1")))
def test_every_plan_is_in_its_overrides(plan: Plan) -> None:
    overrides = overrides_of(plan)
    layout = parse_layout(overrides["pipeline_model_parallel_layout"], place="layout")
    assert layout.cells(overrides["pipeline_model_parallel_size"], place="layout") == plan.layers
    ids = overrides["recompute_layer_ids"] or []
    assert ids == sorted(set(ids))
    first = 0
    for chunk, row in enumerate(plan.layers):
        for rank, count in enumerate(row):
            inside = [layer for layer in ids if first <= layer < first + count]
            assert inside == list(range(first, first + plan.count("full", chunk, rank)))
            first += count
    assert all(layer < first for layer in ids)


def test_the_page_shows_what_is_written() -> None:
    for version in TARGET.versions:
        for piece in TARGET.write(INTERLEAVED, version).pieces:
            assert piece.text in page_of(TARGET)
