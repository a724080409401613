from evenflow.export.mindformers import mindformers_lists, offsets
from evenflow.model import Plan


def test_lists_are_cumulative_and_offsets_sum_to_the_remainder():
    plan = Plan(
        schedule="1f1b",
        num_microbatches=4,
        layers=((5, 9),),
        recompute={"full": ((1, 2),), "both": ((1, 1),), "select": ((2, 0),), "comm": ((0, 3),)},
    )
    assert mindformers_lists(plan) == {
        "offset": ((-2, 2),),
        "recompute": ((1, 2),),
        "select_recompute": ((4, 3),),
        "select_comm_recompute": ((2, 6),),
    }
    uneven = Plan(schedule="interleaved", num_microbatches=4, layers=((2, 3), (3, 3)))
    assert offsets(uneven) == ((0, 1), (1, 1))
