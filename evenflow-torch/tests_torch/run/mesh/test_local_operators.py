"""Operators that devices run on their own parts, on real processes: results and gradients are those of one."""

from functools import partial

import pytest

from tests_torch.run.cases import Answer, untroubled
from tests_torch.run.mesh.local_cases import CASES, expected_placements, local_case

pytestmark = pytest.mark.processes

TOLERANCE = 1e-12


@pytest.fixture(scope="module")
def answers() -> dict[str, list[Answer]]:
    return untroubled({name: partial(local_case, name) for name in CASES}, 4)


@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients_are_those_of_one_device(answers: dict[str, list[Answer]], name: str) -> None:
    for answer in answers[name]:
        assert answer.error <= TOLERANCE
        assert answer.found == expected_placements(name)  # nothing was gathered
