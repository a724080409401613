"""Certificates of random small problems: they are accepted, and never say more than exhaustive search."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from evenflow.model import LayerRun
from evenflow.solve.certificate.certify import certify
from evenflow.solve.certificate.described import not_covered
from evenflow.solve.clock import Clock
from evenflow.solve.cuts.cut_graph import has_cut_graphs
from evenflow.solve.race import Race
from evenflow.verify import CertificateError, Checker, read_certificate, verify
from tests.solve.cases import NO_SHRINKING
from tests.solve.cuts.graph_cases import graph_cases, small_cases, with_limits
from tests.solve.exhaustive import Case
from tests.thoroughness import examples
from tests.verify.certified import problem


@given(drawn=graph_cases())
@settings(max_examples=examples(200), phases=NO_SHRINKING)
def test_random_cases(drawn):
    case, limit, best_ns = drawn
    own = case.problem(limit)
    assume(not not_covered(own))
    plan = Race(own).run(Clock(limit_s=20.0)).plan
    assert plan is not None
    certificate = certify(own, own.counts(plan), seconds=60.0)
    assert certificate is not None
    bound_ns = certificate.claim.bound_ns
    assert best_ns * (1 - 4e-6) <= bound_ns <= best_ns
    verify(read_certificate(msgspec.json.encode(certificate), place="it"))
    claim = msgspec.structs.replace(certificate.claim, bound_ns=best_ns + 1)
    with pytest.raises(CertificateError):
        Checker(msgspec.structs.replace(certificate, claim=claim)).check_bound()


@st.composite
def counted_cases(draw: st.DrawFn) -> tuple[Case, int | None, int]:
    """Cases of more than two chunks, or chunks that do not pass the ranks in a row."""
    case = draw(small_cases())
    if draw(st.booleans()):
        first, count = case.network.runs[0].layer, case.network.num_layers
        case = replace(case, network=replace(case.network, runs=(LayerRun(layer=first, count=count),)))
    assume(not has_cut_graphs(case.problem()) and not not_covered(case.problem()))
    return draw(with_limits(case))


@given(drawn=counted_cases())
@settings(max_examples=examples(60), phases=NO_SHRINKING, suppress_health_check=[HealthCheck.filter_too_much])
def test_cases_whose_layers_are_counted(drawn):
    """Where layers differ, plans are bounded by others that take the same layer twice, so the bound may be lower."""
    case, limit, best_ns = drawn
    own = case.problem(limit)
    plan = Race(own).run(Clock(limit_s=20.0)).plan
    assert plan is not None
    certificate = certify(own, own.counts(plan), seconds=60.0)
    if own.network.is_uniform:
        assert certificate is not None
        assert best_ns * (1 - 4e-6) <= certificate.claim.bound_ns
    if certificate is not None:
        assert certificate.claim.bound_ns <= best_ns
        claim = msgspec.structs.replace(certificate.claim, bound_ns=best_ns + 1)
        with pytest.raises(CertificateError):
            Checker(msgspec.structs.replace(certificate, claim=claim)).check_bound()


@pytest.mark.parametrize("schedule", ["zbv", "v-half", "1f1b-v", "interleaved"])
def test_two_chunks_in_both_directions(schedule):
    own = problem(schedule)
    plan = Race(own).run(Clock(limit_s=20.0)).plan
    assert plan is not None
    certificate = certify(own, own.counts(plan), seconds=60.0)
    assert certificate is not None
    verify(certificate)
    assert certificate.claim.bound_ns >= 0.99 * certificate.claim.makespan_ns


def test_without_time_there_is_none():
    own = problem()
    plan = Race(own).run(Clock(limit_s=20.0)).plan
    assert plan is not None
    assert certify(own, own.counts(plan), seconds=0.0) is None
