import pytest

from evenflow.errors import InputError
from evenflow_torch.auto.stages.request import TwoLevelRequest
from tests.cluster.clusters import mesh


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_microbatches": 0}, "num_microbatches must be at least 1, got 0"),
        ({"optimizer_bytes_per_parameter": -1}, "optimizer_bytes_per_parameter must be at least 0, got -1"),
        ({"schedule": "interleaved"}, "schedule must be one of 1f1b"),
    ],
)
def test_requests_that_make_no_sense_are_refused_before_any_work(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TwoLevelRequest(cluster=mesh(1, 2), **change)
