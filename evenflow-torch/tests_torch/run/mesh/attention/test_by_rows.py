"""Attention of devices that have other rows, on real processes: results and gradients are those of one."""

from functools import partial

import pytest
from torch.distributed.tensor import Shard

from evenflow.cluster import RowExchange
from tests_torch.run.cases import Answer, untroubled
from tests_torch.run.mesh.local_cases import ROW_CASES, row_case

pytestmark = pytest.mark.processes

TOLERANCE = 1e-12


@pytest.fixture(scope="module")
def answers() -> dict[str, list[Answer]]:
    return untroubled({name: partial(row_case, name) for name in ROW_CASES}, 4)


@pytest.mark.parametrize("name", ROW_CASES)
def test_results_and_gradients_are_those_of_one_device(answers: dict[str, list[Answer]], name: str) -> None:
    _, _, sizes, planned, passes = ROW_CASES[name]
    on_axes = [size for size, one in zip(sizes, planned.split(), strict=True) if one == "S(2)"]
    steps = on_axes[0] if len(on_axes) == 1 else 0
    messages = [steps - 1, 2 * steps - 1]  # keys and values; in the backward their gradients too, and these home
    expected = sum(count for count, rows in zip(messages, passes, strict=True) if rows is RowExchange.RING and steps)
    for answer in answers[name]:
        assert answer.error <= TOLERANCE
        placed, sent = answer.found
        assert placed == [str(Shard(int(one[2]))) for one in planned.split()]
        assert sent == expected
