from dataclasses import replace

import pytest
from hypothesis import assume, given

from evenflow.errors import InputError
from evenflow.model import NONE, EndBlock, Halves, Layer, LayerRun, Mode, Network, PassHalves, Plan
from evenflow.solve import Status
from evenflow.targets.frameworks.mindspeed.target import TARGET
from evenflow.targets.planning import plan_for_target
from evenflow.targets.refusal import refusal
from evenflow.targets.target import GivenSizes
from evenflow.targets.tuning import for_framework
from tests.targets.pages import page_of
from tests.targets.questions import MIXTURE, asked
from tests.targets.shell import bash_words
from tests.targets.strategies import canonical, plans

INTERLEAVED = Plan(
    schedule="interleaved",
    num_microbatches=37,
    group_size=21,
    layers=((3, 4, 4, 4), (4, 4, 4, 1)),
    recompute={"full": ((2, 2, 2, 2), (2, 2, 2, 1))},
)


LISTED = Plan(schedule="1f1b", num_microbatches=8, layers=((4, 4, 5, 3),))


def test_flags_with_megatrons_layout() -> None:
    (piece,) = TARGET.write(INTERLEAVED, "26.1").pieces
    assert piece.text == (
        "PIPELINE_ARGS=(\n"
        "    --num-layers 28\n"
        "    --pipeline-model-parallel-size 4\n"
        "    --pipeline-model-parallel-layout 'Et*3|(t*4|)*6,tL'\n"
        "    --microbatch-group-size-per-virtual-pipeline-stage 21\n"
        "    --recompute-granularity full\n"
        "    --recompute-method block\n"
        "    --recompute-num-layers 2\n"
        ")\n"
    )


def test_flags_before_megatrons_layout() -> None:
    (piece,) = TARGET.write(INTERLEAVED, "26.0").pieces
    assert piece.text == (
        "PIPELINE_ARGS=(\n"
        "    --num-layers 28\n"
        "    --pipeline-model-parallel-size 4\n"
        "    --microbatch-group-size-per-virtual-pipeline-stage 21\n"
        "    --pipeline-num-transformer-layers '[[3,4],[4,4]*2,[4,1]]'\n"
        "    --num-virtual-stages-per-pipeline-rank 2\n"
        "    --recompute-granularity full\n"
        "    --recompute-method block\n"
        "    --recompute-num-layers 2\n"
        ")\n"
    )


@pytest.mark.processes
def test_bash_hands_the_matrix_on_as_one_word() -> None:
    (piece,) = TARGET.write(INTERLEAVED, "26.0").pieces
    words = bash_words(piece.text)
    assert words[words.index("--pipeline-num-transformer-layers") + 1] == "[[3,4],[4,4]*2,[4,1]]"


def test_the_cut_of_one_chunk_also_in_the_words_of_mindspeed_llm() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=((4, 4, 5, 3),))
    notes = TARGET.write(plan, "26.1").notes
    assert notes[-1] == "MindSpeed-LLM also takes the cut as --num-layer-list 4,4,5,3"
    assert not any("as --num-layer-list" in note for note in TARGET.write(INTERLEAVED, "26.1").notes)


def test_only_a_layout_has_places_for_multi_token_prediction() -> None:
    assert any("layout" in note for note in TARGET.write(INTERLEAVED, "26.1").notes)
    assert not any("layout" in note for note in TARGET.write(INTERLEAVED, "26.0").notes)


def test_layers_that_megatron_refuses_below_the_matrix_are_refused() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=((4, 4, 6, 3),))
    with pytest.raises(InputError, match=r"layers must be a multiple of the 4 ranks for MindSpeed 26\.0, got 17"):
        TARGET.write(plan, "26.0")
    assert TARGET.write(plan, "26.1").pieces


@given(plan=plans(TARGET.abilities("26.0")))
def test_a_written_plan_is_read_back(plan: Plan) -> None:
    assert TARGET.read is not None
    assume(plan.num_chunks > 1 or plan.num_layers % plan.num_ranks == 0)
    for version in TARGET.versions:
        if refusal(plan, TARGET.abilities(version), title=TARGET.title) is not None:
            continue
        text = TARGET.write(plan, version).pieces[0].text
        script = text + "python pretrain_gpt.py ${PIPELINE_ARGS[@]}  # with MindSpeed\n"
        assert TARGET.recognise(script, "run.sh")
        found = TARGET.read(script, "run.sh", GivenSizes(num_microbatches=plan.num_microbatches))
        assert canonical(found.plan) == canonical(plan)
        assert found.unknown == ()


def test_the_page_shows_what_is_written() -> None:
    for version, plan in (("1.0", LISTED), ("26.0", INTERLEAVED), ("26.1", INTERLEAVED)):
        for piece in TARGET.write(plan, version).pieces:
            assert piece.text in page_of(TARGET)


PAIRED = Plan(schedule="interleaved-overlap", num_microbatches=8, layers=((3, 4), (4, 1)), delays_weights=True)


def test_forwards_beside_backwards_have_a_switch_of_their_own() -> None:
    written = TARGET.write(PAIRED, "26.1")
    (piece,) = written.pieces
    assert "    --moe-fb-overlap\n" in piece.text
    assert "--overlap-moe" not in piece.text
    assert "--delay-wgrad" not in piece.text
    assert any("--moe-grouped-gemm" in note for note in written.notes)
    assert not any("Transformer Engine" in note for note in written.notes)
    assert TARGET.apply is not None
    assert TARGET.read is not None
    script = "torchrun pretrain_gpt.py --num-layers 12 --pipeline-model-parallel-size 2 --swap-attention # mindspeed\n"
    on = TARGET.apply(script, "run.sh", PAIRED)
    assert TARGET.read(on, "run.sh", GivenSizes(num_microbatches=8)).plan == PAIRED
    plain = replace(PAIRED, schedule="interleaved", delays_weights=None)
    assert "--moe-fb-overlap" not in TARGET.apply(on, "run.sh", plain)


def test_what_pairs_keep_to() -> None:
    abilities = TARGET.abilities("26.1")

    def refused(plan: Plan) -> str:
        found = refusal(plan, abilities, title="MindSpeed")
        return "" if found is None else str(found)

    full = {"full": ((3, 3), (3, 1))}
    assert not refused(replace(PAIRED, recompute=full))
    assert "must be above zero in every cell" in refused(replace(PAIRED, layers=((3, 4), (5, 0))))
    assert not refused(replace(PAIRED, layers=((3, 4), (5, 0)), schedule="interleaved", delays_weights=None))
    assert "must be at least twice the number of ranks" in refused(replace(PAIRED, num_microbatches=3))
    assert "must be one of 1f1b, interleaved" in str(refusal(PAIRED, TARGET.abilities("26.0"), title="MindSpeed"))


def test_degrees_with_pairs_have_a_layer_in_every_cell() -> None:
    plain = asked("mindspeed", MIXTURE, version="26.1")
    assert for_framework(plain, TARGET, "26.1", schedules=["interleaved"]).allow_empty
    both = for_framework(plain, TARGET, "26.1", schedules=["interleaved", "interleaved-overlap"])
    assert [both.min_layers_of(name) for name in both.schedules] == [0, 1]
    assert not for_framework(plain, TARGET, "26.1", schedules=["interleaved-overlap"]).allow_empty


def test_no_cell_is_empty_beside_pairs_alone() -> None:
    """A short layer that is best left out of a stage stays in one with pairs."""
    halves = Halves(forward=PassHalves(dispatch_ns=300), backward=PassHalves(combine_ns=600))
    modes = {NONE: Mode(activation_bytes=5, backward_ns=2000)}
    layer = Layer(name="layer", forward_ns=1000, parameter_bytes=10, modes=modes, halves=halves)
    heavy = EndBlock(name="tail", forward_ns=3000, backward_ns=6000)
    network = Network(name="heavy", runs=(LayerRun(layer=layer, count=4),), tail=heavy)

    def best(schedule: str) -> Plan:
        found = plan_for_target(
            network, "mindspeed", num_ranks=2, num_microbatches=8, num_chunks=[2], schedules=[schedule]
        )
        assert found.outcome.status is Status.OPTIMAL
        assert found.outcome.plan is not None
        return found.outcome.plan

    assert min(map(min, best("interleaved").layers)) == 0
    assert best("interleaved-overlap").layers == ((1, 1), (1, 1))
