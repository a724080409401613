"""The stages of a plan in the order of the network."""

from hypothesis import given

from evenflow.model import NONE, Plan
from evenflow.schedule import schedule_of
from evenflow.targets.stages import layers_by_kind, stages_of
from tests.targets.torch.strategies import plans


@given(plans())
def test_stages_hold_every_layer_once_in_order_and_lie_on_the_ranks_of_the_schedule(plan: Plan) -> None:
    schedule = schedule_of(plan)
    stages = stages_of(plan, schedule.stage_ranks)
    assert [layer for stage in stages for layer in stage.layers] == list(range(plan.num_layers))
    assert tuple(stage.rank for stage in stages) == schedule.stage_ranks
    assert all(len(stage.layers) == plan.layers[stage.chunk][stage.rank] for stage in stages)


@given(plans())
def test_kinds_are_as_many_as_in_the_plan(plan: Plan) -> None:
    stages = stages_of(plan, schedule_of(plan).stage_ranks)
    for stage in stages:
        for kind in (*plan.recompute, NONE):
            assert stage.kinds.count(kind) == plan.count(kind, stage.chunk, stage.rank)
    found = layers_by_kind(stages)
    assert {kind: len(layers) for kind, layers in found.items()} == {
        kind: sum(map(sum, table)) for kind, table in plan.recompute.items()
    }


def test_the_first_layers_of_a_cell_recompute_the_strongest_kind_first() -> None:
    plan = Plan(
        schedule="1f1b",
        num_microbatches=1,
        layers=((4, 2),),
        recompute={"comm": ((1, 0),), "full": ((1, 1),), "select": ((1, 0),)},
    )
    assert layers_by_kind(stages_of(plan, (0, 1))) == {"full": (0, 4), "select": (1,), "comm": (2,)}
