"""Orders of work as CSV."""

import pytest
from hypothesis import given

from evenflow.errors import InputError
from evenflow.model import Plan, looped
from evenflow.schedule import Op, parse_schedule, schedule_of
from evenflow.targets.torch.order_csv import csv_order, is_v_shaped, order_piece, runtime_notes
from tests.targets.torch.strategies import plans


@given(plans())
def test_the_file_reads_back_as_the_order_of_the_plan(plan: Plan) -> None:
    schedule = csv_order(plan)
    read = parse_schedule(order_piece(schedule).text, name=schedule.name)
    assert read == schedule_of(plan)
    loop = looped(num_ranks=plan.num_ranks, num_chunks=plan.num_chunks)
    assert is_v_shaped(schedule, title="X") == (schedule.stage_ranks != loop)
    assert len(runtime_notes(schedule)) == (Op.W in schedule.used_ops) + schedule.has_pairs


def own(*lines: str, layers: tuple[tuple[int, ...], ...]) -> Plan:
    return Plan(schedule="own", num_microbatches=2, layers=layers, order=lines)


def test_an_order_whose_losses_the_runtime_would_mix_up_is_refused() -> None:
    plan = own("0F1,0F0,0B1,0B0", "1F1,1B1,1F0,1B0", layers=((1, 1),))
    with pytest.raises(InputError, match="must have the forwards of the last stage in the order of the microbatches"):
        csv_order(plan)
    csv_order(own("0F1,0F0,0B1,0B0", "1F0,1F1,1B1,1B0", layers=((1, 1),)))


def test_an_order_without_backwards_is_refused() -> None:
    with pytest.raises(InputError, match="must have backwards"):
        csv_order(own("0F0,0F1", "1F0,1F1", layers=((1, 1),)))


def test_stages_that_are_neither_in_a_loop_nor_on_a_v_are_refused() -> None:
    lines = ("0F0,0F1,1F0,1F1,1B0,1B1,0B0,0B1", "2F0,2F1,3F0,3F1,3B0,3B1,2B0,2B1")
    schedule = csv_order(own(*lines, layers=((1, 1), (1, 1))))
    with pytest.raises(InputError, match="must have its stages in a loop or on a V for X"):
        is_v_shaped(schedule, title="X")
