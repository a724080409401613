"""What nothing beats: no point that is listed is dominated, and none that is missing is not."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.tune.answers.pareto import (
    OnDevices,
    by_devices,
    by_distance,
    by_memory,
    device_counts,
    distance,
    front,
    on_all_devices,
    on_devices,
    peak_bytes,
    smaller_limits,
)
from evenflow.tune.axes import Axis
from evenflow.tune.candidate import Candidate
from evenflow.tune.coarse import coarse
from evenflow.tune.search import search
from tests.tune.answers.test_standing import ASKED, answer, some

POINTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 3)))


def beats(one, other) -> bool:
    """Whether a point is as good in all and better in one."""
    return all(a <= b for a, b in zip(one, other, strict=True)) and one != other


@given(POINTS, st.integers(1, 3))
def test_a_front_is_what_nothing_beats(points, count: int) -> None:
    kept = [point[:count] for point in points]
    measures = [lambda point, axis=axis: point[axis] for axis in range(count)]
    found = front(kept, *measures)
    assert found == sorted({point for point in kept if not any(beats(other, point) for other in kept)})


def test_steps_against_memory() -> None:
    tuned = answer()
    narrow = [search(each, rows=1, time_limit_s=2) for each in smaller_limits(tuned)[:1]]
    found = [(one.step_ns, peak_bytes(one)) for one in by_memory(tuned, narrow)]
    every = [
        (one.step_ns, peak_bytes(one)) for each in (tuned, *narrow) for one in each.candidates if one.found is not None
    ]
    assert set(found) == {point for point in every if not any(beats(other, point) for other in every)}
    assert found[0][0] == min(step_ns for step_ns, _held in every)
    assert found == sorted(found)


@pytest.mark.parametrize(
    ("devices", "node", "counts"),
    [(8, 8, [4, 2, 1]), (256, 8, [128, 64, 32, 16, 8]), (96, 8, [48, 32, 24, 16, 8]), (12, 4, [4]), (1, 8, [])],
)
def test_fewer_devices_are_whole_nodes_or_parts_of_one(devices: int, node: int, counts: list[int]) -> None:
    topology = replace(ASKED.topology, domain_devices=node)
    assert device_counts(replace(ASKED, devices=devices, topology=topology)) == counts


def test_a_configuration_of_fewer_devices_has_more_copies_on_all() -> None:
    half = search(on_devices(ASKED, ASKED.devices // 2), rows=1, time_limit_s=2)
    assert half.candidates
    legal = {one.training for one in answer().candidates}
    found = [(one.training, on_all_devices(ASKED, one.training)) for one in half.candidates]
    assert any(more is not None for _training, more in found)
    for training, more in found:
        if more is not None:
            assert more.degrees.devices == ASKED.devices
            assert replace(more.degrees, data=training.degrees.data) == training.degrees
            assert more in legal


def test_steps_against_devices() -> None:
    asked = replace(ASKED, fixed={Axis.DATA: 8, Axis.ZERO: 1, Axis.MICROBATCH: 1})
    answers = [OnDevices(devices=8, tuned=search(asked, rows=1, time_limit_s=2))]
    answers += [
        OnDevices(devices=count, tuned=search(on_devices(asked, count), rows=1, time_limit_s=2)) for count in (4, 2)
    ]
    found = by_devices(answers)
    steps = {one.devices: one.best.step_ns for one in answers if one.best is not None}
    assert {one.devices for one in found} == {
        count
        for count, step_ns in steps.items()
        if not any(beats((other_ns, other), (step_ns, count)) for other, other_ns in steps.items())
    }
    assert len(found) >= 2
    assert all(one.best.training.degrees.devices == one.devices for one in found)


def test_steps_against_changes() -> None:
    today = some(ASKED, 20)
    found = by_distance(answer(), today, is_over=lambda: False)
    counts = [distance(today, one) for one in found]
    assert counts[0] == 0  # its own degrees
    assert counts == sorted(set(counts))
    steps = [one.step_ns for one in found]
    assert steps == sorted(steps, reverse=True)
    for one in answer().candidates:  # nothing that a first plan finds beats them
        plan = coarse(one.pricing, one.training)
        if plan is not None:
            shortest = min(step for step, count in zip(steps, counts, strict=True) if count <= distance(today, one))
            assert min(plan.step_ns, one.step_ns) >= shortest * (1 - 1e-9)


def test_the_distance_counts_what_is_set() -> None:
    by_split: dict[tuple[int, ...], Candidate] = {}
    for one in answer().candidates:
        degrees = one.training.degrees
        if degrees.sharding == "1" and one.training.microbatch == 1 and degrees.context == 1:
            by_split.setdefault((degrees.tensor, degrees.pipeline, degrees.chunks), one)
    base = by_split[1, 1, 1]
    assert distance(base, base) == 0
    assert distance(base, by_split[2, 1, 1]) == 1  # copies of the model follow
    assert distance(base, by_split[1, 2, 1]) == 1  # an order of work is needed only now
    assert distance(by_split[2, 1, 1], by_split[1, 2, 1]) == 2
