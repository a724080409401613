"""torch.distributed.pipelining: the order, and the stages for the user's own code."""

from hypothesis import given

from evenflow.model import Plan
from evenflow.targets.frameworks.torch_csv.target import TARGET
from evenflow.targets.refusal import refusal
from tests.targets.torch.strategies import plans

PLAN = Plan(
    schedule="zbv",
    num_microbatches=2,
    layers=((2, 1), (1, 2)),
    recompute={"full": ((1, 0), (1, 0)), "select": ((0, 0), (0, 1))},
)


def test_what_is_written() -> None:
    order, stages = TARGET.write(PLAN, "2.13").pieces
    assert order.file_name == "order.csv"
    assert order.text.splitlines()[0].startswith("0F0,0F1,3F0,3I0")
    assert stages.text == (
        "STAGE_RANKS = [0, 1, 1, 0]  # the rank of every stage\n"
        "STAGE_LAYERS = [[0, 2], [2, 3], [3, 5], [5, 6]]  # its layers: the first one, and the one after its last\n"
        'RECOMPUTED = {"full": [0, 5], "select": [3]}  # layers that are recomputed, by kind\n'
    )


@given(plans(min_ranks=1))
def test_any_plan_of_a_family_can_be_written(plan: Plan) -> None:
    assert refusal(plan, TARGET.abilities("2.13"), title=TARGET.title) is None
    assert len(TARGET.write(plan, "2.13").pieces[0].text.splitlines()) == plan.num_ranks
