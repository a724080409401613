import json

import pytest

BLOCK = """\
memory_usage:
  head_memory: 30
  tail_memory: 10
  body_memories:
    stage_id: [1]
    memories: [20]
"""


def write_round(folder, *peaks):
    for stage, peak in enumerate(peaks):
        path = folder / f"stage_{stage}_rank_{8 * stage}"
        path.mkdir(parents=True)
        lines = f"Used peak memory usage (without fragments): {peak - 1}M\n"
        (path / "mindformer.log").write_text(lines + f"Actual peak memory usage (with fragments): {peak}M\n")


def test_the_block_is_all_of_stdout(folder, evenflow):
    write_round(folder / "out", 30, 20, 10)
    result = evenflow("collect-peaks", "out", "--ranks", 3)
    assert (result.exit_code, result.stdout) == (0, BLOCK)
    assert result.stderr == "out: actual peaks of 3 stages, 0 to 2; the highest is 30 MB on stage 0\n"


def test_grep_on_standard_input(folder, evenflow):
    write_round(folder / "out", 30, 20, 10)
    found = "".join(
        f"{path.relative_to(folder)}:2:{path.read_text().splitlines()[1]}\n" for path in folder.rglob("*.log")
    )
    assert evenflow("collect-peaks", "-", stdin=found).stdout == BLOCK


def test_rounds_and_json(folder, evenflow):
    write_round(folder / "a", 30, 20, 10)
    write_round(folder / "b", 31, 21, 11)
    result = evenflow("collect-peaks", "a", "b", "--used", "--json", "peaks.json")
    assert result.exit_code == 0
    assert "  head_memory: 29\n  tail_memory: 9\n" in result.stdout
    assert "    stage_id: [[1],[1]]\n    memories: [[19],[20]]\n" in result.stdout
    written = json.loads((folder / "peaks.json").read_text())
    assert written.pop("written_by").startswith("evenflow ")
    assert written == {
        "peak": "used",
        "stages": 3,
        "rounds": [
            {"source": "a", "peak_memory_mb": [29.0, 19.0, 9.0]},
            {"source": "b", "peak_memory_mb": [30.0, 20.0, 10.0]},
        ],
    }


def test_output_of_a_megatron_job(folder, evenflow):
    line = "[Rank {}] (after 1 iterations) memory (MB) | allocated: 1.0 | max allocated: 2.0 | reserved: 3.0"
    ranks = "".join(f"{line.format(rank)} | max reserved: {peak}\n" for rank, peak in ((0, 30.2), (8, 19.9), (16, 10)))
    (folder / "train.log").write_text(ranks)
    assert evenflow("collect-peaks", "train.log", "--ranks-per-stage", 8).stdout == BLOCK


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("out", "--ranks", 4), "must have the peaks of all 4 stages of --ranks"),
        (("out", "--ranks-per-stage", 8), "output of a Megatron-LM job"),
        (("missing",), "cannot read missing: no such file"),
        (("-", "-"), "must name standard input (-) at most once"),
        (("out", "short"), "round 2 must have the 3 stages"),
        (("out", "--json", "out"), "--json"),
        ((), "LOGS"),
    ],
)
def test_bad_input_is_one_message(folder, evenflow, arguments, message):
    write_round(folder / "out", 30, 20, 10)
    write_round(folder / "short", 30, 10)
    result = evenflow("collect-peaks", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
