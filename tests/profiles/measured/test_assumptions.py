"""What is taken for fields that a source does not state."""

import pytest
from benchmarks.published.accuracy import DATA

from evenflow.profiles.measured.assumptions import completed
from evenflow.profiles.measured.reading import COLUMNS, read_runs
from evenflow.profiles.measured.run import NEEDED
from tests.profiles.measured.rows import PLAIN, make_run

_NOT_CONFIGURED = {"step_s", "tokens_s_gpu", "tflops_gpu", "mem_gib", "mem_rank", "split", "notes", "model"}
_ABSENT_IS_NOTHING = {"network_gb_s", "layout", "recompute_detail", "overlap_flags"}


def assumed(**cells: str) -> dict[str, object]:
    return {each.field: each.value for each in completed(make_run(**cells)).assumed}


def test_nothing_is_assumed_where_everything_is_stated() -> None:
    assert assumed() == {}
    run = completed(make_run())
    assert (run.experts, run.mtp_layers, run.shared_experts) == (0, 0, 0)


def test_what_follows_from_other_fields_is_no_assumption() -> None:
    run = completed(make_run(dp="", microbatches="", ep="", cp="", head_dim=""))
    assert (run.dp, run.microbatches, run.ep, run.cp, run.head_dim) == (2, 8, 1, 1, 128)
    assert run.assumed == ()
    assert completed(make_run(tp="1", sequence_parallel="", dp="4")).sequence_parallel is False
    assert completed(make_run(vpp="4", schedule="")).schedule == "interleaved"


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({"vocab": ""}, {"vocab": 50_257}),
        ({"precision": ""}, {"precision": "bf16"}),
        ({"precision": "", "hardware": "gb300"}, {"precision": "fp8"}),
        ({"precision": "", "hardware": "a100-80"}, {"precision": "fp16"}),
        ({"hardware": "a100"}, {"hardware": "a100-80"}),
        ({"zero": "", "hardware": "a100-40"}, {"zero": "0"}),
        ({"zero": ""}, {"zero": "distopt"}),
        ({"sequence_parallel": ""}, {"sequence_parallel": True}),
        ({"sequence_parallel": "", "hardware": "a100-40"}, {"sequence_parallel": False}),
        ({"recompute": ""}, {"recompute": "none"}),
        ({"gpus": "", "dp": "", "microbatches": ""}, {"gpus": 8}),
        ({"gpus_per_node": "", "hardware": "gb200"}, {"gpus_per_node": 4}),
        ({"tied_embeddings": "", "gated_mlp": "1"}, {"tied_embeddings": False}),
    ],
)
def test_an_assumption_is_listed_with_its_value(cells, expected) -> None:
    assert assumed(**cells) == expected


def test_runs_without_what_nobody_can_assume_stay_as_they_are() -> None:
    run = make_run(hidden="", vocab="")
    assert run.lacks == ("hidden",)
    assert completed(run) == run


def test_a_completed_run_lacks_nothing_that_a_prediction_needs() -> None:
    bare = {name: "" for name in PLAIN if name not in (*NEEDED, "id", "source", "ref")}
    runs = [make_run(**bare), *(run for file in sorted(DATA.glob("*.csv")) for run in read_runs(file))]
    for run in map(completed, runs):
        empty = {name for name in COLUMNS if getattr(run, name) is None}
        assert empty <= _NOT_CONFIGURED | _ABSENT_IS_NOTHING
        assert all(each.reason for each in run.assumed)


def test_neither_the_source_nor_the_measurement_decides() -> None:
    cells = {"vocab": "", "zero": "", "precision": ""}
    other = assumed(**cells, source="other", step_s="99", mem_gib="3", ref="elsewhere")
    assert assumed(**cells) == other
