"""``--alternatives``: plans that are hardly longer and leave more memory free."""

import json

import pytest

SIZES = ("--ranks", 2, "--microbatches", 100, "--chunks", 1, "--time-limit", 12)


def planned(folder, evenflow, *options):
    result = evenflow("plan", "tiny.json", *SIZES, *options, "--json", "plan.json", "--overwrite")
    assert result.exit_code == 0, result.stderr
    return result.stdout, json.loads((folder / "plan.json").read_text())


def test_plans_that_leave_more_free_are_listed_with_what_is_proven(folder, evenflow):
    """Three of five layers take 100 x 9 ms, then rank 0 fills and drains: 3 ms on two layers, 6 ms on three.

    A layer keeps 100 MB, and 10 MB for each microbatch in flight: two on rank 0, one on rank 1.
    """
    (folder / "tiny.json").write_text((folder / "tiny.json").read_text().replace('"nb_layer": 4', '"nb_layer": 5'))
    text, written = planned(folder, evenflow, "--memory", "500MB", "--alternatives", 3)
    peak_mb = max(written["peak_memory_mb"])
    assert (written["makespan_ms"], peak_mb) == (903, 360)
    assert [(other["makespan_ms"], max(other["peak_memory_mb"])) for other in written["roomier"]] == [(906, 330)]
    for other in written["roomier"]:
        assert max(other["peak_memory_mb"]) < peak_mb
        assert written["makespan_ms"] <= other["makespan_ms"] <= 1.01 * written["makespan_ms"]
        assert other["free_mb"] == pytest.approx(500 - max(other["peak_memory_mb"]))
        assert other["lower_bound_ms"] <= other["makespan_ms"]
        assert other["free_mb"] <= written["most_free_mb"]
        assert f"{other['makespan_ms']:,.3f}" in text
    kept = [max(other["peak_memory_mb"]) for other in written["roomier"]]
    assert kept == sorted(kept)
    assert "no plan of this order that is at most 1 % longer leaves more than" in text
    without, plain = planned(folder, evenflow, "--memory", "500MB")
    assert "roomier" not in plain
    assert "memory free" not in without


def test_a_plan_of_the_list_is_one_for_that_memory(folder, evenflow):
    (folder / "tiny.json").write_text((folder / "tiny.json").read_text().replace('"nb_layer": 4', '"nb_layer": 5'))
    _, written = planned(folder, evenflow, "--memory", "500MB", "--alternatives", 1)
    (other,) = written["roomier"]
    _, limited = planned(folder, evenflow, "--memory", f"{max(other['peak_memory_mb']):.3f}MB")
    assert limited["makespan_ms"] <= other["makespan_ms"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ("--alternatives", 3),
            "--alternatives must come with a memory limit, of which a plan leaves some free, got 3",
        ),
        (("--memory", "240MB", "--alternatives", 0), "--alternatives must be an integer from 1 to 20, got 0"),
    ],
)
def test_what_cannot_be_is_refused(folder, evenflow, options, says):
    result = evenflow("plan", "tiny.json", *SIZES, *options)
    assert result.exit_code == 2
    assert says in result.stderr


def test_layers_without_memory_have_none_to_spare(folder, evenflow):
    plain = json.loads((folder / "tiny.json").read_text())
    for layer in plain["layers_description"]:
        for name in [name for name in layer if name.startswith("memory")]:
            del layer[name]
    (folder / "tiny.json").write_text(json.dumps(plain))
    result = evenflow("plan", "tiny.json", *SIZES, "--memory", "1GB", "--alternatives", 3)
    assert result.exit_code == 2
    assert "--alternatives must be left out: the layers have no memory data, got 3" in result.stderr
