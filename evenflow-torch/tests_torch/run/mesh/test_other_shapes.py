"""Batches of other shapes than the plan's, where stages lie on several devices: what crosses, and on real processes."""

from collections.abc import Callable
from functools import cache, partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cluster import WholeTensor, is_even
from evenflow.cluster.mesh_plan import MeshPlan, RowExchange
from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow_torch.models.rows import as_row
from evenflow_torch.run.mesh.other_shapes import plan_for_shape
from tests_torch.run.cases import Answer, untroubled
from tests_torch.run.mesh.mesh_models import (
    CONTEXT,
    DATA,
    HIDDEN,
    LENGTH,
    SAMPLES,
    SEQUENCE,
    SHARDED,
    TENSOR,
    On,
    mesh_plan,
    model,
    refused_shapes_case,
    shapes_case,
)

PAIR = Plan(schedule="1f1b", num_microbatches=2, layers=((1, 2),), recompute={"full": ((1, 1),)})
SPLIT = Plan(schedule="zb-h1", num_microbatches=3, layers=((2, 1),))
SHAPES = (2, 6), (8, 4), (4, 6)


def halves(first: str, second: str) -> tuple[On, ...]:
    return On(devices=(0, 1), mesh=(2,), axes=(first,)), On(devices=(2, 3), mesh=(2,), axes=(second,))


CASES: dict[str, Callable[[int], Answer]] = {
    "data, then tensor": partial(shapes_case, PAIR, halves(DATA, TENSOR), shapes=SHAPES),
    "shared data, then sequence": partial(shapes_case, SPLIT, halves(SHARDED, SEQUENCE), shapes=SHAPES),
}
CHECKED: dict[str, Callable[[int], Answer]] = {
    "checked": partial(shapes_case, PAIR, halves(TENSOR, DATA), shapes=SHAPES[:2], is_checked=True),
}
REFUSED: dict[str, Callable[[int], Answer]] = {
    "refused": partial(refused_shapes_case, PAIR, halves(DATA, SEQUENCE)),
}


@cache
def planned(first: str, second: str) -> MeshPlan:
    return mesh_plan(PAIR, as_row(model(PAIR)), halves(first, second))


@given(st.sampled_from([(DATA, TENSOR), (SEQUENCE, DATA), (TENSOR, SEQUENCE)]), st.integers(1, 9), st.integers(1, 9))
def test_what_is_not_refused_gives_all_devices_equal_parts(axes: tuple[str, str], samples: int, length: int) -> None:
    plan = planned(*axes)
    fits = (samples % 2 == 0 or DATA not in axes) and (length % 2 == 0 or SEQUENCE not in axes)
    try:
        changed = plan_for_shape(plan, (samples, length))
    except InputError:
        assert not fits
        return
    assert fits
    assert changed.stages[0].input.shape == (samples, length)
    assert changed.stages[1].input.shape == changed.stages[0].output.shape == (samples, length, HIDDEN)
    for stage in changed.stages:
        for layout in filter(None, (stage.input, stage.output)):
            assert is_even(WholeTensor(shape=layout.shape, item_bytes=1), layout.placement, layout.mesh)


def test_dimensions_that_are_no_samples_or_positions_stay() -> None:
    plan = planned(DATA, TENSOR)
    assert plan_for_shape(plan, (SAMPLES, LENGTH)) is plan
    for shape in ((SAMPLES,), (SAMPLES, LENGTH, 2)):
        with pytest.raises(InputError, match=r"must have the dimensions of \[4, 6\] but for samples and positions"):
            plan_for_shape(plan, shape)


def test_positions_stay_where_attention_is_shared_by_rows() -> None:
    axes = halves(CONTEXT, CONTEXT)
    plan = mesh_plan(PAIR, as_row(model(PAIR)), axes, rows=RowExchange.RING)
    assert plan_for_shape(plan, (2 * SAMPLES, LENGTH)).stages[1].input.shape == (2 * SAMPLES, LENGTH, HIDDEN)
    with pytest.raises(InputError, match=r"must have 6 positions, whose attention the plan shares, got \[4, 12\]"):
        plan_for_shape(plan, (SAMPLES, 2 * LENGTH))


@pytest.fixture(scope="module")
def answers() -> dict[str, list[Answer]]:
    return untroubled({**CASES, **CHECKED, **REFUSED}, 4)


@pytest.mark.processes
@pytest.mark.parametrize("name", [*CASES, *CHECKED])
def test_losses_and_gradients_of_every_shape_are_the_unsplit_models(
    answers: dict[str, list[Answer]], name: str
) -> None:
    assert max(answer.error for answer in answers[name]) <= 1e-12
    assert max(answer.loss_error or 0 for answer in answers[name]) <= 1e-12
    if name in CHECKED:
        assert [answer.found for answer in answers[name]] == [()] * 4


@pytest.mark.processes
def test_what_devices_cannot_share_is_refused_on_all_of_them(answers: dict[str, list[Answer]]) -> None:
    for answer in answers["refused"]:
        samples, positions, rest = answer.found
        assert "number of samples that the 2 devices of stage 0 can share, got [3, 6]" in samples
        assert "number of positions that the 2 devices of stage 1 can share, got [4, 5]" in positions
        assert "must have a number of samples that the plan's 2 microbatches divide, got 7" in rest
