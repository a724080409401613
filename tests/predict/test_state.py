"""Bytes of parameters, gradients and optimizer under each way of sharing them out."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.predict.held import Held
from evenflow.predict.parameters import Parameters
from evenflow.predict.state import state_bytes, state_parts
from evenflow.predict.training import Degrees, Sharding, Software, Training
from tests.predict.test_memory import transformer

COUNT = 1_000_000


def training(sharding: Sharding, *, data: int = 8, **changes: object) -> Training:
    degrees = Degrees(data=data, sharding=sharding)
    one = Training(model=transformer(), degrees=degrees, microbatch=1, global_batch=data, sequence=64)
    return replace(one, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sharding", "bytes_each"),
    [
        (Sharding.NOTHING, 2 + 4 + 12), (Sharding.OPTIMIZER, 2 + 4 + 12 / 8), (Sharding.GRADIENTS, 2 + (4 + 12) / 8),
        (Sharding.PARAMETERS, (4 + 4 + 8) / 8),
    ],
)  # fmt: skip
def test_bytes_of_a_parameter(sharding: Sharding, bytes_each: float) -> None:
    assert state_bytes(training(sharding), Parameters(dense=COUNT)) == round(bytes_each * COUNT)


def test_gradients_in_sixteen_bits_are_copied_for_the_optimizer() -> None:
    found = state_parts(training(Sharding.OPTIMIZER, software=Software(gradient_bytes=2)), Parameters(dense=COUNT))
    assert found == {Held.PARAMETERS: 2 * COUNT, Held.GRADIENTS: 2 * COUNT, Held.OPTIMIZER: 16 * COUNT // 8}


def test_single_precision_has_no_copies() -> None:
    found = state_parts(training(Sharding.NOTHING, precision="fp32"), Parameters(dense=COUNT))
    assert found == {Held.PARAMETERS: 4 * COUNT, Held.GRADIENTS: 4 * COUNT, Held.OPTIMIZER: 8 * COUNT}


def test_experts_are_shared_out_over_their_own_copies() -> None:
    degrees = Degrees(data=8, expert=4, sharding=Sharding.OPTIMIZER)
    one = training(Sharding.OPTIMIZER, degrees=degrees)
    assert state_parts(one, Parameters(expert=COUNT))[Held.OPTIMIZER] == 12 * COUNT // 2
    assert state_parts(one, Parameters(dense=COUNT))[Held.OPTIMIZER] == 12 * COUNT // 8


@given(st.sampled_from([1, 2, 4, 16]), st.integers(1, 10**9))
def test_sharing_out_more_never_takes_more(data: int, count: int) -> None:
    order = [Sharding.NOTHING, Sharding.OPTIMIZER, Sharding.GRADIENTS, Sharding.PARAMETERS]
    sizes = [state_bytes(training(each, data=data), Parameters(dense=count)) for each in order]
    assert sizes == sorted(sizes, reverse=True)
