"""The least time in which ranks by themselves could share out a network, against every plan of small problems."""

from dataclasses import replace

from hypothesis import event, given, settings
from hypothesis import strategies as st

from evenflow.model import CellRule, LayerRun
from evenflow.solve.bounds import ramp_bound_ns
from evenflow.solve.columns import shared_out
from evenflow.solve.columns.shared_out import shared_out_bound_ns
from tests.networks import plain_network
from tests.solve.exhaustive import Case, every_plan
from tests.solve.test_cell_rules import ruled
from tests.strategies import FamilySizes
from tests.thoroughness import examples


@given(data=st.data())
@settings(max_examples=examples(150), deadline=None)
def test_no_plan_is_shorter_than_the_bound(data):
    case = data.draw(ruled(any_order=False))
    plans = every_plan(case)
    limit = data.draw(st.sampled_from([None, *plans.limits()]))
    best_ns, problem = plans.best_ns(limit), case.problem(limit)
    bound_ns = shared_out_bound_ns(problem, lower_ns=0, upper_ns=best_ns)
    assert 0 <= bound_ns <= best_ns
    event("as good as it can be" if bound_ns == best_ns else "lower")
    # One nanosecond more than the best plan is never proven, however the search for the bound goes.
    assert shared_out_bound_ns(problem, lower_ns=best_ns, upper_ns=best_ns + 1) == best_ns
    for away in (1, 2, 3, 7):
        assert shared_out_bound_ns(problem, lower_ns=max(0, best_ns - away), upper_ns=best_ns + away) <= best_ns


@given(data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_what_does_not_fit_takes_longer_than_any_time(data):
    case = data.draw(ruled(any_order=False))
    plans = every_plan(case)
    problem = case.problem(max(1, plans.least_bytes - 1))
    above_ns = int(plans.makespans_ns.max()) * 2
    event(str(shared_out_bound_ns(problem, lower_ns=0, upper_ns=above_ns) == above_ns))
    assert shared_out_bound_ns(case.problem(plans.least_bytes), lower_ns=0, upper_ns=above_ns) < above_ns


def test_a_rank_alone_is_bounded_by_what_it_takes_to_the_nanosecond():
    case = Case(network=plain_network(4), sizes=FamilySizes(family="1f1b", num_ranks=1, num_microbatches=3))
    case = replace(case, rule=CellRule(full=(2, 2)))
    best_ns = every_plan(case).best_ns(None)
    problem = case.problem()
    assert ramp_bound_ns(problem) < best_ns  # which does not know the rule
    assert shared_out_bound_ns(problem, lower_ns=0, upper_ns=best_ns) == best_ns
    assert shared_out_bound_ns(problem, lower_ns=0, upper_ns=2 * best_ns) <= best_ns


def test_a_cheap_layer_counts_once():
    """Each of two ranks could do the one cheap layer and another one in the time of the dear ones of a rank."""
    run = plain_network(3).runs[0]
    cheap = replace(
        run.layer, forward_ns=1, modes={kind: replace(mode, backward_ns=1) for kind, mode in run.layer.modes.items()}
    )
    network = replace(plain_network(3), runs=(LayerRun(layer=cheap, count=1), LayerRun(layer=run.layer, count=3)))
    case = Case(network=network, sizes=FamilySizes(family="1f1b", num_ranks=2, num_microbatches=8))
    problem = case.problem()
    best_ns = every_plan(case).best_ns(None)
    bound_ns = shared_out_bound_ns(problem, lower_ns=0, upper_ns=best_ns)
    two_layers_ns = 8 * 2 * (run.layer.forward_ns + run.layer.modes["none"].backward_ns)
    assert 0.99 * two_layers_ns <= bound_ns <= best_ns


def test_it_ends_when_it_is_told_to_and_leaves_networks_of_many_runs_alone(monkeypatch):
    problem = Case(
        network=plain_network(4), sizes=FamilySizes(family="1f1b", num_ranks=2, num_microbatches=3)
    ).problem()
    assert shared_out_bound_ns(problem, lower_ns=7, upper_ns=10**12, keep_going=lambda: False) == 7
    monkeypatch.setattr(shared_out, "_MOST_SUMS", 1)
    assert shared_out_bound_ns(problem, lower_ns=7, upper_ns=10) == 7
