"""The smallest change that fits: it fits, and nothing that is tried beside it is faster and fits too."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import FULL
from evenflow.predict.limits.checks import check_training
from evenflow.predict.limits.smallest_change import Change, Setting, neighbours, peak_bytes, smallest_change
from evenflow.predict.prediction import Prediction, predict
from evenflow.predict.training import Sharding, Software, Training
from tests.predict.limits.trainings import EXPERTS, MODEL, TOPOLOGY, training
from tests.thoroughness import examples

LARGE = replace(MODEL, hidden=4096, heads=32, kv_heads=8, head_dim=128, ffn=14_336)


def predicted(one: Training) -> Prediction | None:
    try:
        check_training(one, TOPOLOGY.accelerator)
    except InputError:
        return None
    return predict(one, TOPOLOGY)


def every_neighbour(start: Training) -> list[Prediction]:
    """All predictions of neighbours, and of every number of layers recomputed in full."""
    most = start.model.layers // (start.degrees.pipeline * start.degrees.chunks)
    full = [replace(start, recompute=FULL, full_layers=count) for count in range(1, most)]
    return [found for one in (*neighbours(start), *full) if (found := predicted(one)) is not None]


@settings(max_examples=examples(25), deadline=None)
@given(
    share=st.floats(0.3, 1.05), has_experts=st.booleans(), microbatch=st.sampled_from([1, 2, 4]),
    sharding=st.sampled_from(Sharding), recompute=st.sampled_from(["none", "select", "full"]),
    chunks=st.sampled_from([1, 2]),
)  # fmt: skip
def test_it_fits_and_no_cheaper_neighbour_does(
    share: float, has_experts: bool, microbatch: int, sharding: Sharding, recompute: str, chunks: int
) -> None:
    start = training(
        EXPERTS if has_experts else MODEL, microbatch=microbatch, sharding=sharding, recompute=recompute, chunks=chunks
    )
    limit = int(share * peak_bytes(predict(start, TOPOLOGY)))
    change = smallest_change(predict(start, TOPOLOGY), limit_bytes=limit)
    fitting = [one for one in every_neighbour(start) if peak_bytes(one) <= limit]
    if change is None:
        assert fitting == []
        return
    assert change.memory_bytes <= limit
    again = predict(change.prediction.training, TOPOLOGY)
    assert (again.step_ns, peak_bytes(again)) == (change.step_ns, change.memory_bytes)
    assert again.training.degrees.devices == start.degrees.devices
    if fitting:
        assert change.step_ns == min(one.step_ns for one in fitting)


def changed(start: Training, *, share: float) -> Change:
    change = smallest_change(predict(start, TOPOLOGY), limit_bytes=int(share * peak_bytes(predict(start, TOPOLOGY))))
    assert change is not None
    return change


def test_the_settings_say_what_differs() -> None:
    start = training(LARGE, data=1, microbatch=1, global_batch=16, software=Software(fused_attention=False))
    change = changed(start, share=0.9)
    assert change.settings == (Setting(field="recompute", before="none", after="select"),)
    unsharded = training(LARGE, microbatch=1, sharding=Sharding.NOTHING)
    change = changed(unsharded, share=0.9)
    assert Setting(field="sharding", before=Sharding.NOTHING, after=Sharding.OPTIMIZER) in change.settings


def test_only_as_many_layers_are_recomputed_as_need_be() -> None:
    start = training(LARGE, tensor=1, data=1, microbatch=1, global_batch=64, software=Software(gradient_bytes=2))
    whole = predict(replace(start, recompute=FULL), TOPOLOGY)
    limit = (peak_bytes(predict(start, TOPOLOGY)) + peak_bytes(whole)) // 2
    change = smallest_change(predict(start, TOPOLOGY), limit_bytes=limit)
    assert change is not None
    one = change.prediction.training
    assert one.recompute == FULL
    assert one.full_layers is not None
    assert 1 < one.full_layers < 6
    assert change.memory_bytes <= limit < peak_bytes(predict(replace(one, full_layers=one.full_layers - 1), TOPOLOGY))


def test_two_settings_where_one_is_not_enough() -> None:
    start = training(LARGE, tensor=1, microbatch=2, sharding=Sharding.NOTHING)
    least = min(peak_bytes(one) for one in every_neighbour(start))
    change = smallest_change(predict(start, TOPOLOGY), limit_bytes=least - 1)
    assert change is not None
    assert len(change.settings) >= 2
    assert change.memory_bytes < least


def test_nothing_fits_into_nothing() -> None:
    assert smallest_change(predict(training(), TOPOLOGY), limit_bytes=1) is None


@pytest.mark.parametrize("start", [training(), training(EXPERTS, expert=2), training(layout=((7, 6, 6, 5),))])
def test_neighbours_have_as_many_devices_and_differ(start: Training) -> None:
    found = list(neighbours(start))
    assert len(set(found)) == len(found)
    assert start not in found
    assert {one.degrees.devices for one in found} == {start.degrees.devices}
    assert {one.model for one in found} == {start.model}
