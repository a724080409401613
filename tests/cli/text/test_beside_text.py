"""One line: a plan beside another."""

import pytest

from evenflow.cli.text.beside_text import beside_line
from evenflow.model import Plan
from evenflow.profiles.layer_file import read_layer_file
from evenflow.simulate import Simulation, simulate
from evenflow.units import MEGABYTE


@pytest.fixture
def simulated(folder):
    """Two stages of tiny.json: 18 ms and 240 MB when even, 21 ms and 340 MB with three layers on the first."""

    def with_layers(*layers: int) -> Simulation:
        return simulate(
            read_layer_file("tiny.json"), Plan(schedule="1f1b", num_microbatches=2, layers=(tuple(layers),))
        )

    return with_layers


def test_what_is_saved_is_a_share_of_the_other_step(simulated):
    even, uneven = simulated(2, 2), simulated(1, 3)
    assert (even.makespan_ns, uneven.makespan_ns) == (18_000_000, 21_000_000)
    assert beside_line(even, "mine", uneven, None) == "14.3 % shorter than mine: 21.0 ms"
    assert beside_line(uneven, "mine", even, None) == "16.7 % longer than mine: 18.0 ms"
    assert beside_line(even, "mine", even, 240 * MEGABYTE) == "as long as mine"


def test_another_plan_that_does_not_fit_is_said_to(simulated):
    even = simulated(2, 2)
    assert beside_line(even, "mine", even, 239 * MEGABYTE) == "as long as mine, does not fit"
