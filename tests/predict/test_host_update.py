"""The optimizer's state on the host: what a device and the host hold, and how long the update takes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.predict.held import Held
from evenflow.predict.host_update import UPDATE_BYTES_PER_S, HostUpdate
from evenflow.predict.limits.checks import check_training
from evenflow.predict.parameters import Parameters, model_parameters
from evenflow.predict.prediction import OPTIMIZER, Prediction, predict
from evenflow.predict.state import state_parts, updated_by_host
from evenflow.predict.step.data_parallel import after_rank_ns
from evenflow.predict.training import Sharding, Training
from tests.predict.trainings import DEVICE, TOPOLOGY, training

HOST = HostUpdate(link_bytes_per_s=50 * 10**9)


def on_host(part: float, *, host: HostUpdate = HOST, **changes: object) -> Training:
    plain = training(host_update=host, **changes)
    return replace(plain, degrees=replace(plain.degrees, optimizer_offload=part))


def optimizer_ns(prediction: Prediction) -> float:
    return next(part.exposed_ns for part in prediction.parts if part.name == OPTIMIZER)


@given(part=st.floats(0, 1), count=st.integers(1, 10**9), sharding=st.sampled_from(list(Sharding)[:3]))
def test_the_device_and_the_host_hold_all_of_it(part: float, count: int, sharding: Sharding) -> None:
    plain = on_host(part)
    shared = replace(plain, degrees=replace(plain.degrees, data=4, sharding=sharding))
    whole = replace(shared, degrees=replace(shared.degrees, optimizer_offload=0.0))
    here, there = (state_parts(each, Parameters(dense=count)) for each in (shared, whole))
    moved = updated_by_host(shared, Parameters(dense=count))
    assert here[Held.OPTIMIZER] + 12 * moved == pytest.approx(there[Held.OPTIMIZER], abs=2)
    assert {**here, Held.OPTIMIZER: 0} == {**there, Held.OPTIMIZER: 0}


def test_what_a_run_measured() -> None:
    """Qwen3-0.6B on an H100: 0.752 s a step, 1.187 s with half of the state on the host and 1.678 s with all of it.

    [NVIDIA-NeMo/RL, issue 3628]
    """
    count = 596e6
    for part, more_s in ((0.5, 1.187 - 0.752), (1.0, 1.678 - 0.752)):
        assert HOST.ns(part * count) / 1e9 == pytest.approx(more_s, rel=0.1)


def test_a_slow_link_limits_the_update_instead() -> None:
    assert HOST.ns(10**6) == pytest.approx(34 / UPDATE_BYTES_PER_S * 1e15)
    assert HostUpdate(link_bytes_per_s=10**9).ns(10**6) == pytest.approx(4e6)


@given(part=st.sampled_from([0.0, 0.25, 1.0]), link=st.integers(10**8, 10**12), rate=st.integers(10**8, 10**13))
def test_the_update_is_never_below_its_bound_nor_shorter_than_on_the_device_by_more_than_its_part(
    part: float, link: int, rate: int
) -> None:
    asked = on_host(part, host=HostUpdate(link_bytes_per_s=link, update_bytes_per_s=rate))
    prediction = predict(asked, TOPOLOGY)
    plain = predict(on_host(0.0), TOPOLOGY)
    rank = prediction.busiest_rank
    parts = [prediction.priced.layers[layer].parameters for layer in (2 * rank, 2 * rank + 1)]
    least = sum(after_rank_ns(asked, TOPOLOGY, parameters) for parameters in parts)
    assert optimizer_ns(prediction) >= least * (1 - 1e-12)
    assert prediction.simulation.makespan_ns == plain.simulation.makespan_ns
    held = 16 * part * model_parameters(asked.model) / asked.degrees.tensor
    assert sum(prediction.host_bytes) == pytest.approx(held, rel=0.05, abs=8)
    if not part:
        assert prediction.step_ns == plain.step_ns


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"host_update": None}, "must come with host_link"),
        ({"precision": "fp32"}, "must be 0 with fully sharded or 32-bit parameters"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, object], says: str) -> None:
    check_training(on_host(0.5), DEVICE)
    with pytest.raises(InputError, match=says):
        check_training(replace(on_host(0.5), **changes), DEVICE)  # type: ignore[arg-type]


@pytest.mark.parametrize("part", [-0.1, 1.1])
def test_more_than_all_of_it_is_refused(part: float) -> None:
    with pytest.raises(InputError, match="optimizer_offload must be a number from 0 to 1"):
        check_training(on_host(part), DEVICE)


def test_fully_sharded_parameters_are_refused() -> None:
    asked = on_host(0.5)
    whole = replace(asked, degrees=replace(asked.degrees, pipeline=1, sharding=Sharding.PARAMETERS))
    with pytest.raises(InputError, match="must be 0 with fully sharded"):
        check_training(whole, DEVICE)
