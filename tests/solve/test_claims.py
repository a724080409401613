"""What a proof leaves out, its sentence names: a better plan outside of it is looked for."""

from dataclasses import replace

from hypothesis import assume, given

from evenflow.model import COMM, SELECT
from evenflow.solve import Status, solve
from evenflow.units import MEGABYTE
from tests.networks import MILLISECOND
from tests.solve.cases import MOST_PLANS, SECONDS, TOLERANCE, cases
from tests.solve.exhaustive import Case, every_plan


@given(cases(time=MILLISECOND, memory=MEGABYTE + 7, any_order=False))
def test_no_plan_is_shorter_that_an_optimum_does_not_name(case: Case):
    limit = every_plan(case).least_bytes
    outcome = solve(case.request(limit), schedule=case.sizes.family, time_limit_s=SECONDS)
    assert outcome.status is Status.OPTIMAL
    claim = outcome.certificate()
    assert ("with a layer in every cell" in claim) == (not case.allow_empty and case.sizes.num_cells > 1)
    names_kinds = f"{SELECT} and {COMM} in different cells" in claim
    assert names_kinds == (not case.mix_any and {SELECT, COMM} <= set(case.network.kinds))
    free = replace(case, allow_empty="a layer in every cell" not in claim, mix_any=not names_kinds)
    assume(free.num_plans() <= MOST_PLANS)
    best_ns = every_plan(free).best_ns(limit)
    assert best_ns is not None
    assert best_ns <= outcome.makespan_ns <= best_ns * (1 + TOLERANCE)
