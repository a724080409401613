"""The integer program against all choices."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow_torch.auto.sharding.pairwise import Pairwise
from evenflow_torch.auto.sharding.pairwise.integer_program import search
from tests.thoroughness import examples
from tests_torch.auto.sharding.pairwise.programs import all_choices, hard_program, programs


@given(programs(), st.floats(0, 1))
@settings(max_examples=examples(50))
def test_cheapest_of_all_choices_that_fit(program: Pairwise, share: float) -> None:
    program.costs = [np.where(np.isfinite(costs), costs, 1.0) for costs in program.costs]
    allowed = all_choices(program)
    needs = sorted({memory for _, memory in allowed.values()})
    limit = needs[int(share * (len(needs) - 1))] if needs else 0
    for memory_limit in (None, limit):
        found = search(program, memory_limit=memory_limit, time_limit_s=60)
        costs = [cost for cost, memory in allowed.values() if memory_limit is None or memory <= memory_limit]
        if not costs:
            assert found.choices is None
            assert found.lower_bound == np.inf
            continue
        assert found.choices is not None
        assert found.lower_bound == allowed[found.choices][0]
        assert abs(found.lower_bound - min(costs)) <= 1e-6 * min(costs)


def test_what_is_not_done_in_time_is_bounded() -> None:
    program = hard_program(30, 8, seed=5)
    found = search(program, memory_limit=None, time_limit_s=1.0)
    assert found.choices is None or found.lower_bound <= program.cost_of(found.choices)
