"""Certificates of random small problems: they are accepted, and never say more than exhaustive search."""

import msgspec
import pytest
from hypothesis import assume, given, settings

from evenflow.solve.certificate.certify import certify
from evenflow.solve.certificate.described import not_covered
from evenflow.solve.clock import Clock
from evenflow.solve.race import Race
from evenflow.verify import CertificateError, Checker, read_certificate, verify
from tests.solve.cases import NO_SHRINKING
from tests.solve.cuts.graph_cases import graph_cases
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
