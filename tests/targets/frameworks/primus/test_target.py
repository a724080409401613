from typing import Any

import pytest
from hypothesis import given, settings

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.profiles.yaml_values import load_document
from evenflow.schedule import make_schedule
from evenflow.targets.frameworks.primus.target import TARGET
from evenflow.targets.megatron_family.layout import parse_layout
from evenflow.targets.refusal import refusal
from evenflow.targets.target import Baseline, GivenSizes
from tests.targets.pages import page_of
from tests.targets.strategies import canonical, plans
from tests.thoroughness import examples

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
        (
            Plan(schedule="zbv", num_microbatches=4, layers=((1, 1), (1, 1))),
            r"must be one of 1f1b, interleaved, 1f1b-overlap, interleaved-overlap, zb-h1",
        ),
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
        ("modules:\n  a: {framework: megatron, overrides: [1]}\n", r"mine\.yaml: modules\.a\.overrides must be an ob"),
        ("modules:\n  a: {framework: megatron, overrides: {num_layers: 3}}\n", r"num_layers must be the number of la"),
        ("modules: [", r"mine\.yaml"),
    ],
)
def test_a_file_that_cannot_take_the_plan_is_refused(text: str, message: str) -> None:
    assert TARGET.apply is not None
    with pytest.raises(InputError, match=message):
        TARGET.apply(text, "mine.yaml", INTERLEAVED)


EIGHT = GivenSizes(num_microbatches=8)


def read(overrides: str, given: GivenSizes = EIGHT) -> Baseline:
    """The plan of a file with these lines as overrides."""
    assert TARGET.read is not None
    lines = "".join(f"      {line}\n" for line in overrides.splitlines())
    text = f"modules:\n  pre_trainer:\n    framework: megatron\n    overrides:\n{lines}"
    assert TARGET.recognise(text, "mine.yaml")
    return TARGET.read(text, "mine.yaml", given)


def test_a_microbatch_alone_does_not_tell_the_batch_which_a_preset_has() -> None:
    sizes = "num_layers: 4\npipeline_model_parallel_size: 2\nmicro_batch_size: 1\n"
    assert read(sizes).plan.num_microbatches == 8
    with pytest.raises(InputError, match="for the number of microbatches"):
        read(sizes, GivenSizes())


def test_the_plan_of_a_users_file() -> None:
    assert TARGET.read is not None
    assert TARGET.recognise(USER_FILE, "mine.yaml")
    given = GivenSizes(num_layers=64, num_microbatches=16)
    found = TARGET.read(
        USER_FILE.replace("overlap_grad_reduce: true", "recompute_mtp_layer_ids: [0]"), "mine.yaml", given
    )
    assert found.plan == Plan(
        schedule="interleaved",
        num_microbatches=16,
        layers=((2,) * 8,) * 4,
        recompute={"full": ((2,) * 8,) * 4},
    )
    assert found.notes == ("pipeline_model_parallel_size is taken to be 8, the default of PRIMUS_PP",)
    assert found.unknown == ("mine.yaml, line 12: recompute_mtp_layer_ids",)


@pytest.mark.parametrize("key", ["offload", "cpu_offload"])
def test_what_moves_to_the_host_is_named(key: str) -> None:
    assert TARGET.read is not None
    text = USER_FILE.replace("overlap_grad_reduce: true", f"{key}: true")
    found = TARGET.read(text, "mine.yaml", GivenSizes(num_layers=64, num_microbatches=16))
    assert found.unknown == (f"mine.yaml, line 12: modules.pre_trainer.overrides.{key}",)


@pytest.mark.parametrize("ids", ['"0,1,7,11,27"', "[27, 0, 1, 7, 11, 11]", '" 0, 1, 7, 11, 27 "'])
def test_ids_of_recomputed_layers_are_counted_in_their_cells(ids: str) -> None:
    found = read(
        f"pipeline_model_parallel_size: 4\n"
        f"pipeline_model_parallel_layout: Et*3|(t*4|)*6,tL\n"
        f"recompute_granularity: full\nrecompute_layer_ids: {ids}\n"
    )
    assert found.plan.layers == ((3, 4, 4, 4), (4, 4, 4, 1))
    assert found.plan.recompute == {"full": ((2, 0, 1, 1), (0, 0, 0, 1))}
    assert found.notes == ()


def test_recomputed_layers_need_not_be_the_first_and_may_be_of_multi_token_prediction() -> None:
    found = read(
        "pipeline_model_parallel_size: 2\npipeline_model_parallel_layout: Ettt|tttmL\nmtp_num_layers: 1\n"
        "recompute_granularity: full\nrecompute_layer_ids: [1, 5, 6]\n"
    )
    assert found.plan.recompute == {"full": ((1, 1),)}
    assert [note for note in found.notes if "has them first" in note]
    assert [note for note in found.notes if "multi-token prediction" in note]


def test_a_manual_split_has_the_chunks_of_a_rank_side_by_side() -> None:
    found = read(
        "pipeline_model_parallel_size: 4\nnum_virtual_stages_per_pipeline_rank: 2\n"
        "decoder_pipeline_manual_split_list: [2, 3, 2, 2, 2, 2, 2, 1]\n"
    )
    assert found.plan.layers == ((2, 2, 2, 2), (3, 2, 2, 1))


@pytest.mark.parametrize(
    ("lines", "schedule"),
    [
        ("", "1f1b"),
        ("patch_primus_pipeline: false\npp_algorithm: zbv-formatted", "1f1b"),
        ("patch_primus_pipeline: true\npp_algorithm: 1f1b", "1f1b"),
        ("patch_primus_pipeline: ${MINE:true}\npp_algorithm: zero-bubble", "zb-h1"),
    ],
)
def test_the_schedule_of_a_file(lines: str, schedule: str) -> None:
    assert read(f"num_layers: 4\npipeline_model_parallel_size: 2\n{lines}").plan.schedule == schedule


SIZES = "num_layers: 8\npipeline_model_parallel_size: 2\n"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (f"{SIZES}patch_primus_pipeline: true\npp_algorithm: v-half", r"line 8: .*pp_algorithm must be 1f1b, 1f1b-int"),
        (f"{SIZES}patch_primus_pipeline: true", r"pp_algorithm must have one chunk per rank, or several for"),
        (f"{SIZES}patch_zero_bubble: true", r"patch_zero_bubble must be false: its orders of work are Primus' own"),
        (f"{SIZES}recompute_layer_ids: [0]", r"recompute_granularity must be full beside recompute_layer_ids"),
        (
            f"{SIZES}recompute_layer_ids: [0]\nrecompute_granularity: full\nrecompute_method: block",
            r"recompute_method must be null beside",
        ),
        (f"{SIZES}recompute_layer_ids: []\nrecompute_granularity: full", r"recompute_layer_ids must be a list of ids"),
        (f"{SIZES}recompute_layer_ids: 0-3\nrecompute_granularity: full", r"recompute_layer_ids must be a list of ids"),
        (f"{SIZES}recompute_layer_ids: [8]\nrecompute_granularity: full", r"must be ids from 0 to 7"),
        (f"{SIZES}recompute_layer_ids: [-1]\nrecompute_granularity: full", r"must be ids from 0 to 7"),
        (
            f"{SIZES}decoder_pipeline_manual_split_list: [8]",
            r"manual_split_list must have a number above zero for",
        ),
        (f"{SIZES}decoder_pipeline_manual_split_list: [8, 0]", r"manual_split_list must have a number above zero"),
        (f"{SIZES}decoder_pipeline_manual_split_list: [4, 5]", r"num_layers must be 9, the layers of the layout"),
        ("pipeline_model_parallel_size: 2", r"num_layers must be given"),
        ("num_layers: 8\npipeline_model_parallel_size: ${PP}", r"write its value in place of the variable"),
        ("num_layers: 9\npipeline_model_parallel_size: 2", r"must leave equally many layers to 2 ranks"),
    ],
)
def test_what_cannot_be_read_has_one_message(lines: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(lines)


@given(plan=plans(TARGET.abilities("26.1")))
def test_a_written_plan_is_read_back(plan: Plan) -> None:
    (piece,) = TARGET.write(plan, "26.1").pieces
    lines = piece.text.split("    overrides:\n")[1].replace("      ", "")
    found = read(lines, GivenSizes(num_microbatches=plan.num_microbatches))
    assert canonical(found.plan) == canonical(plan)
    assert found.unknown == found.notes == () or plan.recompute.get("select")


@settings(max_examples=examples(30))
@given(plan=plans(TARGET.abilities("26.1")))
def test_a_plan_in_a_users_file_is_read_back(plan: Plan) -> None:
    assert TARGET.apply is not None
    assert TARGET.read is not None
    mine = USER_FILE + "      pp_algorithm: v-half\n      patch_primus_pipeline: true\n      patch_zero_bubble: true\n"
    applied = TARGET.apply(mine, "mine.yaml", plan)
    found = TARGET.read(applied, "mine.yaml", GivenSizes(num_microbatches=plan.num_microbatches))
    assert canonical(found.plan) == canonical(plan)
    assert TARGET.apply(applied, "mine.yaml", plan) == applied


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
