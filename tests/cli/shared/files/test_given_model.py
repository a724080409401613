"""A plan file in the place of a layer file: it says what the command line does not."""

import json

import pytest

from evenflow.fields import as_fields
from evenflow.profiles.plan_degrees import PlannedDegrees, read_degrees

pytestmark = pytest.mark.usefixtures("fake_solver")

DEGREES = {
    "tensor": 2, "context": 1, "expert": 1, "data": 4, "replicas": 1, "zero": "1", "pipeline": 2, "chunks": 1,
    "sequence_parallel": True,
}  # fmt: skip


@pytest.fixture
def planned(folder, evenflow):
    """A plan of the tiny model on 2 ranks, with a limit, messages and degrees."""
    sizes = ("--ranks", 2, "--microbatches", 4, "--schedule", "eager-1f1b", "--memory", "300MB")
    result = evenflow("plan", "tiny.json", *sizes, "--p2p-latency", "500us", "--json", "plan.json")
    assert result.exit_code == 0, result.output
    fields = json.loads((folder / "plan.json").read_text())
    more = {"degrees": DEGREES, "microbatch": 4, "sequence": 128}
    (folder / "tune.json").write_text(json.dumps(fields | more))
    return fields


def again(evenflow, folder, *options):
    result = evenflow("plan", "tune.json", *options, "--json", "again.json")
    assert result.exit_code == 0, result.output
    return json.loads((folder / "again.json").read_text())


def test_the_same_plan_comes_out(planned, evenflow, folder):
    found = again(evenflow, folder)
    for name in (
        "ranks", "chunks", "microbatches", "schedule", "memory_limit_mb", "communication", "network", "layers",
        "makespan_ms", "peak_memory_mb",
    ):  # fmt: skip
        assert found[name] == planned[name], name


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        (("--ranks", 4), {"ranks": 4, "schedule": "eager-1f1b", "microbatches": 4}),
        (("--microbatches", 2), {"microbatches": 2, "ranks": 2}),
        (("--schedule", "1f1b"), {"schedule": "1f1b", "chunks": 1}),
        (("--chunks", 2), {"schedule": "interleaved", "chunks": 2}),
        (("--memory", "400MB"), {"memory_limit_mb": 400.0}),
        (("--p2p-latency", "1ms"), {"communication": {"latency_ms": 1.0, "transfer_ms": 0.0}}),
    ],
)
def test_all_of_it_can_be_decided_anew(planned, evenflow, folder, options, changed):
    found = again(evenflow, folder, *options)
    assert {name: found[name] for name in changed} == changed


def test_degrees_go_on(planned, evenflow, folder):
    found = again(evenflow, folder, "--chunks", 2)
    degrees = read_degrees(as_fields(found, file="again.json"))
    assert isinstance(degrees, PlannedDegrees)
    assert (degrees.degrees.tensor, degrees.degrees.data, degrees.degrees.chunks) == (2, 4, 2)
    assert (degrees.microbatch, degrees.sequence) == (1, 128)
    assert "degrees" not in planned


def test_why_degrees_are_missing_goes_on(planned, evenflow, folder):
    fields = json.loads((folder / "tune.json").read_text())
    (folder / "tune.json").write_text(json.dumps(fields | {"degrees": None, "degrees_missing": "they differ"}))
    assert again(evenflow, folder)["degrees_missing"] == "they differ"


@pytest.mark.parametrize("missing", ["--ranks", "--microbatches"])
def test_a_layer_file_says_no_sizes(evenflow, folder, missing):
    sizes = {"--ranks": 2, "--microbatches": 2}
    given = [word for option, value in sizes.items() if option != missing for word in (option, value)]
    result = evenflow("plan", "tiny.json", *given)
    assert result.exit_code == 2
    assert f"Missing option '{missing}', or a plan file that says it" in result.stderr


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"network": None}, "network must be an object"),
        ({"layers": "4"}, "layers"),
        ({"ranks": 3}, "ranks must be 2, as many as 'layers' has"),
        ({"memory_limit_mb": -1}, "memory_limit_mb"),
        ({"degrees": {"tensor": 2}}, "degrees must have the field 'context'"),
    ],
)
def test_spoiled_files(planned, evenflow, folder, changes, message):
    fields = json.loads((folder / "tune.json").read_text())
    (folder / "tune.json").write_text(json.dumps(fields | changes))
    result = evenflow("plan", "tune.json")
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_a_plan_without_its_model(planned, evenflow, folder):
    del planned["network"]
    (folder / "old.json").write_text(json.dumps(planned))
    result = evenflow("plan", "old.json")
    assert result.exit_code == 2
    assert "old.json must hold its model, as 'network'" in result.stderr
