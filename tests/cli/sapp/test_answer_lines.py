import pytest

from evenflow.cli.sapp.answer_lines import binding_line, flags_for
from evenflow.cli.sapp.balancer_settings import BalancerSettings
from evenflow.model import Sizes
from evenflow.solve import BindingLimit, Outcome, ScheduleCandidate, Status
from evenflow.units import MEGABYTE


@pytest.mark.parametrize(
    ("own", "neighbour", "flags"),
    [
        (("interleaved-less-memory", 3), ("interleaved", 3), "-lm 0"),
        (("interleaved", 3), ("interleaved-less-memory", 3), "-lm 1"),
        (("interleaved", 3), ("interleaved", 4), "-i 4"),
        (("interleaved-less-memory", 3), ("interleaved", 2), "-lm 0 -i 2"),
        (("interleaved-less-memory", 2), ("1f1b", 1), "-i 1"),
        (("1f1b", 1), ("interleaved", 2), "-i 2"),
        (("1f1b", 1), ("interleaved-less-memory", 2), "-lm 1 -i 2"),
        (("dualpipe-v", 2), ("interleaved", 2), "-dual 0 -i 2"),
        (("dualpipe-v", 2), ("interleaved-less-memory", 3), "-dual 0 -lm 1 -i 3"),
    ],
)
def test_a_neighbour_in_the_words_of_the_command(own, neighbour, flags):
    sizes = Sizes(num_ranks=2, num_chunks=own[1], num_microbatches=4)
    settings = BalancerSettings(
        sizes=sizes, schedule=own[0], memory_limit_bytes=1, less_memory=own[0] == "interleaved-less-memory"
    )
    candidate = ScheduleCandidate(schedule=neighbour[0], num_chunks=neighbour[1], outcome=None)
    assert flags_for(candidate, settings) == flags


def test_the_stages_that_bind():
    def line(*limits: BindingLimit, same: bool = False) -> str:
        outcome = Outcome(
            status=Status.OPTIMAL, simulation=None, lower_bound_ns=1, memory_limit_bytes=1, solve_seconds=1.0,
            binding=limits,
        )  # fmt: skip
        return binding_line(outcome, same_without_limit=same)

    layer = BindingLimit(rank=2, more_bytes=MEGABYTE + 1, takes_layer=True)
    less = BindingLimit(rank=0, more_bytes=9 * MEGABYTE, takes_layer=False)
    assert line(less, layer) == (
        "memory_binds: stages [0, 2]; with 2 MB more, stage 2 would take a layer from its neighbour"
    )
    assert line(less) == "memory_binds: stages [0]; with 9 MB more, stage 0 would recompute less"
    assert line().startswith("memory_binds: no stage: none alone")
    assert line(same=True) == "memory_binds: no stage: the same plan is optimal without a limit"
