"""Which row comes first, and which rows people would refuse."""

from dataclasses import replace

import pytest

from evenflow.cli.text.tune.proof_text import legend
from evenflow.cluster.topology import Topology
from evenflow.export.results.tune_fields import TuneSetting, tune_fields
from evenflow.predict.training import Degrees, Sharding
from evenflow.tune.candidate import Candidate
from evenflow.tune.preference import Doubt, doubts_of, mechanisms, simplest_first
from evenflow.tune.tuned import Tuned
from tests.predict.trainings import training
from tests.tune.rankings import candidate, ranking

PLAIN = training(degrees=Degrees(data=8), schedule="1f1b", layout=((8,),))
SPLIT = training()
CHUNKED = training(
    degrees=Degrees(tensor=2, pipeline=2, chunks=2, data=2), schedule="interleaved", layout=((2, 2),) * 2
)
SHARDED = training(degrees=Degrees(data=8, sharding=Sharding.PARAMETERS), schedule="1f1b", layout=((8,),))


def of(*ranked: Candidate) -> Tuned:
    return replace(ranking(), ranked=ranked, made=ranked, lower_bound_ns=399e6)


def test_the_fewest_mechanisms_come_first_among_equals() -> None:
    fast, equal, slow = (
        candidate(one, step_ms=step_ms, gigabytes=8.0)
        for one, step_ms in ((CHUNKED, 400.0), (SPLIT, 404.0), (PLAIN, 409.0))
    )
    assert mechanisms(fast) > mechanisms(equal) > mechanisms(slow) == 0
    preferred = simplest_first(of(fast, equal, slow))
    assert preferred.ranked == (equal, fast, slow)  # the plainest one is more than 2 % longer
    assert preferred.best is equal
    assert preferred.fastest is fast
    assert preferred.gap == pytest.approx(1 - 399 / 400)
    assert "of the fastest row could be saved" in preferred.certificate()
    assert any("404" not in line and "1.00 % longer" in line for line in legend(preferred, 3))


def test_the_fastest_stays_first_where_nothing_as_good_is_simpler() -> None:
    fast, equal = candidate(PLAIN, step_ms=400.0, gigabytes=8.0), candidate(SPLIT, step_ms=400.5, gigabytes=8.0)
    preferred = simplest_first(of(fast, equal))
    assert preferred.ranked == (fast, equal)
    assert "of the first could be saved" in preferred.certificate()
    assert not any("longer than the fastest" in line for line in legend(preferred, 2))


def test_a_simple_row_that_people_refuse_is_not_preferred() -> None:
    fast, tight = candidate(CHUNKED, step_ms=400.0, gigabytes=8.0), candidate(PLAIN, step_ms=401.0, gigabytes=15.5)
    assert doubts_of(fast) == ()
    assert doubts_of(tight) == (Doubt.MEMORY,)
    preferred = simplest_first(of(fast, tight))
    assert preferred.best is fast
    assert any("less than 90 % sure to fit are 2" in line for line in legend(preferred, 2))
    setting = TuneSetting(rows=2, target="", version=None, assumed=(), notes=())
    rows = tune_fields(preferred, setting)["ranked"]
    assert isinstance(rows, list)
    assert [row["doubts"] for row in rows] == [[], ["memory"]]


@pytest.mark.parametrize(("domain", "layers", "is_doubtful"), [(4, 8, True), (8, 8, False), (4, 7, False)])
def test_full_recomputation_beside_parameters_of_other_nodes_is_doubtful(
    domain: int, layers: int, *, is_doubtful: bool
) -> None:
    one = candidate(SHARDED, step_ms=400.0, gigabytes=8.0, full=((layers,),))
    pricing = one.pricing
    topology = Topology(accelerator=pricing.question.topology.accelerator, domain_devices=domain)
    one.pricing = replace(pricing, question=replace(pricing.question, topology=topology))
    assert (Doubt.GATHERED in doubts_of(one)) == is_doubtful
