from dataclasses import replace

import pytest

from evenflow.cli.text.block_text import block_to_paste, without_environment
from evenflow.model import Plan
from evenflow.simulate import simulate
from evenflow.units import MEGABYTE
from tests.networks import plain_network

# A layer keeps 100 MB for a microbatch and has 50 MB of parameters. Rank 0 has two layers. Of
# chunks of one layer it has at most (v-1) g + 2p - 1 = 5 live, and (v-1) g + p = 4 with less memory.
PLAN = Plan(schedule="interleaved-less-memory", num_microbatches=4, layers=((1, 1), (1, 1)))


def simulated(plan: Plan = PLAN):
    return simulate(plain_network(4), plan)


def test_says_what_runs_without_the_variable():
    simulation = simulated()
    assert [peak // MEGABYTE for peak in simulation.peak_memory_bytes] == [500, 400]
    assert [peak // MEGABYTE for peak in simulated(replace(PLAN, schedule="interleaved")).peak_memory_bytes] == [
        600,
        400,
    ]
    said = "# with the environment variable ENABLE_LESS_MEM_VPP=1: without it the peak is 600 MB, "
    assert said + "over the limit on 1 of 2 ranks\n" in block_to_paste(simulation, 500 * MEGABYTE)
    assert said + "also within the limit\n" in block_to_paste(simulation, 600 * MEGABYTE)
    assert said + "not 500 MB\n" in block_to_paste(simulation, None)


def test_without_memory_data_it_names_the_order():
    simulation = simulate(replace(plain_network(4), has_memory=False), PLAN)
    assert without_environment(simulation, None) == "the order is interleaved"


def test_nothing_is_said_where_no_variable_is_needed():
    assert without_environment(simulated(replace(PLAN, schedule="interleaved")), None) == ""


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (
            replace(PLAN, schedule="interleaved", num_microbatches=1),
            "microbatches must be at least the number of ranks",
        ),
        (replace(PLAN, layers=((2, 0), (1, 1))), "layers, chunk 0, rank 1 must be above zero"),
    ],
)
def test_a_block_that_the_framework_refuses_says_so_twice(plan, reason, capsys):
    assert f"\n# MindFormers refuses this plan: {reason}" in block_to_paste(simulated(plan), None)
    assert f"note: MindFormers refuses this plan; {reason}" in capsys.readouterr().err


def test_no_block_where_there_are_no_lists(capsys):
    plan = Plan(schedule="zbv", num_microbatches=4, layers=((1, 1), (1, 1)))
    assert block_to_paste(simulated(plan), None) == ""
    assert "note: no block for MindFormers; schedule must be one of" in capsys.readouterr().err
