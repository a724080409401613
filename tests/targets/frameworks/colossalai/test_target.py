import pytest

from evenflow.model import Plan
from evenflow.targets.frameworks.colossalai.target import TARGET
from evenflow.targets.refusal import refusal

FULL = {"full": ((1, 0), (3, 2))}


def written(plan: Plan) -> tuple[str, tuple[str, ...]]:
    assert TARGET.can_run(plan)
    piece = TARGET.write(plan, "0.5.0")
    return piece.pieces[0].text, piece.notes


def test_one_chunk():
    text, notes = written(Plan(schedule="1f1b", num_microbatches=5, layers=((3, 4),), recompute={"full": ((1, 0),)}))
    assert (
        text
        == """from colossalai.booster.plugin import HybridParallelPlugin
from colossalai.shardformer import PipelineGradientCheckpointConfig

plugin = HybridParallelPlugin(
    tp_size=1,  # and your other arguments
    pp_size=2,
    pp_style="1f1b",
    num_model_chunks=1,
    num_microbatches=5,
    num_layers_per_stage=[3, 4],
    gradient_checkpoint_config=PipelineGradientCheckpointConfig(
        num_ckpt_layers_per_stage=[1, 0]
    ),
)
"""
    )
    assert notes == ("call model.gradient_checkpointing_enable() before the model is boosted",)


def test_several_chunks_are_cut_after_the_plugin_is_made():
    text, notes = written(Plan(schedule="interleaved", num_microbatches=4, layers=((3, 4), (3, 2))))
    assert (
        text
        == """from colossalai.booster.plugin import HybridParallelPlugin

plugin = HybridParallelPlugin(
    tp_size=1,  # and your other arguments
    pp_size=2,
    pp_style="interleaved",
    num_model_chunks=2,
    num_microbatches=4,
)
# The plugin takes a list for one chunk only; the model is cut later, by this one.
plugin.stage_manager.num_layers_per_stage = [3, 4, 3, 2]
"""
    )
    assert notes == ("do not enable gradient checkpointing of the model",)


def test_on_a_v_the_two_lists_are_in_different_orders():
    text, notes = written(Plan(schedule="zbv", num_microbatches=4, layers=((3, 4), (6, 2)), recompute=FULL))
    assert "num_ckpt_layers_per_stage=[1, 0, 3, 2]" in text  # by chunk and rank
    assert "plugin.stage_manager.num_layers_per_stage = [3, 4, 2, 6]" in text  # in the order of the network
    assert 'pp_style="zbv"' in text
    assert 'scheduler_nodes=scheduler_nodes("plan.json")' in text
    assert '"use_reentrant": False' in notes[0]
    assert "plan.json is the file of this plan" in notes[1]


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (
            Plan(schedule="1f1b", num_microbatches=1, layers=((3, 4),)),
            "microbatches must be at least the number of ranks",
        ),
        (Plan(schedule="1f1b", num_microbatches=4, layers=((7,),)), "ranks must be at least 2 for ColossalAI, got 1"),
        (
            Plan(schedule="interleaved", num_microbatches=5, layers=((1, 1), (1, 1))),
            "microbatches must be a multiple of the number of ranks (2) with several chunks for ColossalAI, got 5",
        ),
        (
            Plan(schedule="zbv", num_microbatches=5, layers=((1, 1), (1, 1))),
            "microbatches must be a multiple of the number of ranks (2) with several chunks for ColossalAI, got 5",
        ),
        (
            Plan(schedule="interleaved", num_microbatches=8, group_size=4, layers=((1, 1), (1, 1))),
            "group size must be a size that ColossalAI runs",
        ),
        (Plan(schedule="1f1b", num_microbatches=4, layers=((0, 3),)), "must be above zero in every cell"),
        (
            Plan(schedule="1f1b", num_microbatches=4, layers=((2, 3),), recompute={"select": ((1, 0),)}),
            "recompute must be of the kinds full for ColossalAI, got 'select'",
        ),
        (Plan(schedule="f-then-b", num_microbatches=4, layers=((1, 1),)), "schedule must be one of 1f1b, interleaved"),
    ],
)
def test_what_it_cannot_run(plan: Plan, message: str):
    reason = refusal(plan, TARGET.abilities("0.5.0"), title=TARGET.title)
    assert reason is not None
    assert message in str(reason)
