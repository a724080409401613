"""Attention of devices that have other rows, on real processes: results and gradients are those of one."""

from functools import partial

import pytest
from torch.distributed.tensor import Shard

from tests.run.cases import Answer, run_group
from tests.run.mesh.local_cases import ROW_CASES, row_case

TOLERANCE = 1e-12


@pytest.fixture(scope="module")
def answers() -> dict[str, list[Answer]]:
    found = run_group({name: partial(row_case, name) for name in ROW_CASES}, 4)
    troubles = {(name, answer.trouble) for name, case in found.items() for answer in case if answer.trouble}
    assert not troubles, "\n".join(f"{name}: {trouble}" for name, trouble in sorted(troubles))
    return found


@pytest.mark.parametrize("name", ROW_CASES)
def test_results_and_gradients_are_those_of_one_device(answers: dict[str, list[Answer]], name: str) -> None:
    planned = ROW_CASES[name][3].split()
    for answer in answers[name]:
        assert answer.error <= TOLERANCE
        assert answer.found == [str(Shard(int(one[2]))) for one in planned]
