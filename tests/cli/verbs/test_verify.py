"""``evenflow plan --certificate`` and ``evenflow verify``: what is written, proven, refused and said."""

import json

import pytest

PLAN = ("plan", "tiny.json", "--ranks", 2, "--microbatches", 4, "--time-limit", 10, "--quiet")
CERTIFIED = (*PLAN, "--certificate", "certificate.json")


@pytest.fixture
def written(folder, evenflow):
    result = evenflow(*CERTIFIED, "--memory", "1GB")
    assert result.exit_code == 0, result.stderr
    return folder / "certificate.json"


def test_a_certificate_is_written_and_proven(written, evenflow):
    result = evenflow("verify", written.name)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [
        "proven: no plan takes less than 29.999940 ms",
        "the plan of the file takes 30.000000 ms, of which another could save at most 0.0002 %",
        "it fits: rank 0 holds most, 240.0 of 1,024.0 MB",
        "proven for all plans with",
        "  the order of work of the file: 1f1b, 2 ranks, 2 stages, 4 microbatches",
        "  the 4 layers of tiny, at the costs in the file",
        "  any number of layers in a stage",
        "  in a stage only layers under full, none",
        "  the memory limits of the file",
    ]


def test_the_plan_says_what_the_certificate_proves_beside_the_solver(folder, evenflow):
    result = evenflow(*CERTIFIED)
    assert "certificate: proves 30.000 ms under this order of work, 0.0002 % below the plan" in result.stderr
    assert "the solver has proven 30.000 ms" in result.stderr
    assert (folder / "certificate.json").is_file()


def test_numbers_of_a_check_are_written(written, folder, evenflow):
    assert evenflow("verify", written.name, "--json", "checked.json").exit_code == 0
    fields = json.loads((folder / "checked.json").read_text())
    assert (fields["proven"], fields["wrong"], fields["makespan_ms"]) == (True, "", 30.0)
    assert fields["memory_limit_mb"] == [1024.0, 1024.0]


def test_a_spoiled_certificate_is_not_proven(written, folder, evenflow):
    fields = json.loads(written.read_text())
    fields["claim"]["makespan_ns"] += 1
    written.write_text(json.dumps(fields))
    result = evenflow("verify", written.name, "--json", "checked.json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "not proven: that no plan takes less than 29.999940 ms; claim: the plan takes 30,000,000 ns" in result.stderr
    assert json.loads((folder / "checked.json").read_text())["proven"] is False


def test_what_is_no_certificate_is_bad_input(folder, evenflow):
    result = evenflow("verify", "tiny.json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "tiny.json must be a certificate as evenflow plan --certificate writes it" in result.stderr


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--schedule", "best"), "must come with one schedule"),
        (("--schedule", "search"), "must come with one schedule"),
        (("--target", "megatron"), "must come with one schedule"),
        (
            ("--p2p-bandwidth", "1GBps", "--boundary", "64MB", "--p2p-exclusive"),
            "must not be given where messages depend",
        ),
        (("--gpipe",), "must not be given for layers that are computed again in segments"),
    ],
)
def test_what_no_certificate_covers_is_refused_before_the_search(folder, evenflow, options, reason):
    result = evenflow(*CERTIFIED, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"--certificate {reason}" in result.stderr
    assert not (folder / "certificate.json").exists()


def test_a_file_of_somebody_else_stays(folder, evenflow):
    (folder / "certificate.json").write_text("{}")
    result = evenflow(*CERTIFIED)
    assert result.exit_code == 2
    assert "must not be a file that evenflow did not write" in result.stderr
    assert (folder / "certificate.json").read_text() == "{}"


def test_its_own_file_is_replaced(written, evenflow):
    assert evenflow(*CERTIFIED).exit_code == 0
    assert "no memory limit" in evenflow("verify", written.name).stdout
