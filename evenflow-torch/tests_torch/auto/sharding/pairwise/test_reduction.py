"""What is settled without search, against all choices."""

from hypothesis import given
from hypothesis import strategies as st

from evenflow_torch.auto.sharding.pairwise import Pairwise
from evenflow_torch.auto.sharding.pairwise.reduction import Reduction
from tests_torch.auto.sharding.pairwise.programs import all_choices, programs


@given(programs())
def test_trees_are_settled(program: Pairwise) -> None:
    chain = Pairwise(costs=program.costs, memory=program.memory)
    chain.edges = {(i, j): table for (i, j), table in program.edges.items() if j == i + 1}
    assert not Reduction(chain, keep_memory=False).costs or not all_choices(chain)


@given(programs(), st.booleans())
def test_the_best_of_the_rest_is_the_best_of_all(program: Pairwise, keep_memory: bool) -> None:
    """Under a limit that is one for every limit."""
    allowed = all_choices(program)
    reduction = Reduction(program, keep_memory=keep_memory)
    left = all_choices(reduction.rest()) if reduction.constant < float("inf") else {}
    assert bool(left) == bool(allowed)
    memories = {memory for _, memory in allowed.values()} if keep_memory else {float("inf")} if allowed else set()
    for limit in memories:
        best = min(cost for cost, memory in allowed.values() if memory <= limit)
        ours = [
            (cost, choices)
            for choices, (cost, memory) in left.items()
            if memory + reduction.memory_constant <= limit or not keep_memory
        ]
        cost, choices = min(ours)
        assert cost + reduction.constant == best
        assert allowed[reduction.expand(choices)][0] == best
