"""Times of passes with exchanges under them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cluster.reached import SLOWED
from evenflow_torch.auto.sharding.overlap import ALONE, Item, Overlap, Purpose, step_costs
from evenflow_torch.auto.sharding.sharding_plan import CostPart, Phase

WORK = {phase: Item(phase=phase, part=CostPart.COMPUTE) for phase in (Phase.FORWARD, Phase.BACKWARD)}
GATHER = Item(phase=Phase.FORWARD, part=CostPart.RESHARDING, window=Phase.FORWARD)
REDUCTION = Item(phase=Phase.BACKWARD, part=CostPart.GRADIENT, window=Phase.BACKWARD)
ONCE = Item(phase=Phase.UPDATE, part=CostPart.GRADIENT, window=Phase.BACKWARD)
BLOCKING = Item(phase=Phase.BACKWARD, part=CostPart.COMMUNICATION)
OPTIMIZER = Item(phase=Phase.UPDATE, part=CostPart.OPTIMIZER)
ITEMS = (*WORK.values(), GATHER, REDUCTION, ONCE, BLOCKING, OPTIMIZER)


@given(st.lists(st.integers(0, 10**6), min_size=len(ITEMS), max_size=len(ITEMS)), st.sampled_from([1, 3, 16]))
def test_parts_and_phases_are_the_same_time(numbers: list[int], count: int) -> None:
    amounts = {item: number * count for item, number in zip(ITEMS, numbers, strict=True)}
    cost = step_costs(amounts, count)
    by_part = cost.compute_ns + cost.communication_ns + cost.resharding_ns + cost.gradient_ns + cost.optimizer_ns
    assert by_part == cost.total_ns
    saved = (cost.hidden_ns + cost.hidden_update_ns) / SLOWED
    assert cost.total_ns + saved == pytest.approx(sum(amounts.values()), abs=4 * count + 4)
    assert cost.hidden_update_ns <= amounts[ONCE]


def test_once_a_step_is_hidden_by_what_the_last_backward_has_left() -> None:
    amounts = {WORK[Phase.BACKWARD]: 4000, REDUCTION: 4 * 130, ONCE: 2000}
    cost = step_costs(amounts, 4)
    assert cost.hidden_ns == 4 * 130
    assert cost.hidden_update_ns == 1000 * SLOWED - 130, "the backward of one microbatch takes 1000"
    assert cost.backward_ns == 4000 + 4 * (130 - int(130 / SLOWED))
    assert cost.update_ns == pytest.approx(2000 - (1000 - 130 / SLOWED), abs=2)
    # Where nothing is computed, nothing is hidden.
    assert step_costs({REDUCTION: 520, ONCE: 2000}, 4).total_ns == 2520


@pytest.mark.parametrize("purpose", Purpose)
def test_what_can_hide(purpose: Purpose) -> None:
    assert ALONE.share(purpose) == 0
    share = Overlap(tensor=True).share(purpose)
    assert (share == 0) == (purpose is Purpose.OTHER)
    assert (Overlap().share(purpose) == 1) == (purpose not in (Purpose.OTHER, Purpose.PRODUCT))


def test_the_assumption_is_said() -> None:
    assert "no communication" in ALONE.note()
    assert "gradients under the backward" in Overlap().note()
    assert "products" in Overlap(tensor=True).note()
    assert "products" not in Overlap().note()
