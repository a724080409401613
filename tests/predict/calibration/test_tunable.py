"""The parameters that can be fitted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cluster.reached import PARAMETERS, Reached
from evenflow.errors import InputError
from evenflow.predict.calibration.tunable import TUNABLES, tunables


def test_every_parameter_of_an_accelerator_can_be_fitted() -> None:
    assert sorted(TUNABLES) == sorted(PARAMETERS)


@given(st.sampled_from(sorted(TUNABLES)), st.floats(-3, 3))
def test_a_moved_value_is_possible_and_no_move_is_none(name, by) -> None:
    tunable, reached = TUNABLES[name], Reached()
    Reached().changed({name: tunable.moved(reached, by)})
    assert tunable.moved(reached, 0.0) == pytest.approx(tunable.value(reached))
    assert tunable.moved(reached, by) <= tunable.moved(reached, by + 0.1)


@given(st.sampled_from([name for name in sorted(TUNABLES) if name.endswith("_share") and name != "reserve_share"]))
def test_the_room_of_a_share_leads_to_one(name) -> None:
    tunable, reached = TUNABLES[name], Reached()
    _, up = tunable.room(reached)
    assert tunable.moved(reached, up) == pytest.approx(1.0)
    assert tunable.moved(reached, up - 0.1) < 1.0


@given(st.sampled_from(["reserve_share", "driver_bytes", "ramp_depth"]), st.floats(0, 10))
def test_the_room_of_what_can_be_zero_leads_to_zero(name, value) -> None:
    tunable, reached = TUNABLES[name], Reached().changed({name: value})
    down, up = tunable.room(reached)
    assert tunable.moved(reached, down) == pytest.approx(0.0, abs=1e-6)
    assert up == float("inf")


def test_asked_parameters_come_in_the_order_of_importance() -> None:
    assert [one.name for one in tunables(["latency_ns", "product_share"])] == ["product_share", "latency_ns"]
    assert [one.name for one in tunables([])] == list(TUNABLES)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["product_shares"], r"names must be one of .*, got 'product_shares'; did you mean 'product_share'\?"),
        (["link_share", "link_share"], "names is given twice, got 'link_share'"),
    ],
)
def test_names_are_those_of_parameters_and_come_once(names, message) -> None:
    with pytest.raises(InputError, match=message):
        tunables(names)
