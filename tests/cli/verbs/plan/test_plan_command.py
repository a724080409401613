import json
from pathlib import Path

import pytest

from evenflow import solve
from evenflow.errors import FileError, InputError, Interrupted
from evenflow.model import ANY_CONTENT, Request, Sizes
from evenflow.profiles.plan_file import read_plan_file
from evenflow.solve import Outcome, Status

SIZES = ("--ranks", 2, "--microbatches", 2)

# Checked by hand: a stage takes 2 ms forward and 4 ms backward, so rank 0 runs F0 F1 at 0..4, B0 at 8..12 and B1 at
# 14..18: busy 12 of 18 ms. It holds 200 MB and two microbatches of 20 MB, rank 1 one. Model time is 24 ms on both.
PLAN_TEXT = """\
tiny: 4 layers on 2 ranks x 1 chunk, 2 microbatches, 1f1b

step 18.000 ms
as long as equal stages, nothing recomputed
fits: peak 240.0 MB on rank 0, 10.0 MB within the limit of 250.0 MB
within 25.00 % of optimal: 18.000 ms, bound 13.500 ms (solved in 1.5 s)
next: --target NAME prints it for your framework, --json plan.json keeps it

rank  layers  ms/microbatch  peak MB  of limit            idle %
   0       2          6.000    240.0  █████████░  96.0 %    33.3
   1       2          6.000    220.0  ████████░░  88.0 %    33.3

                           all  fill/drain  imbalance  recompute
bubble, of model time   0.5000      0.5000     0.0000     0.0000
rank 0 idle, % of step    33.3        33.3        0.0        0.0
rank 1 idle, % of step    33.3        33.3        0.0        0.0
fill/drain of equal stages: 0.5000 by formula, 0.5000 simulated; idle time (p-1) (f+b)
"""
BLOCK = """\
To put in yaml configuration:
# with num_layers 4 and use_parallel True
model:
  model_config:
    offset: [[0, 0]]
    pp_interleave_num: 1
recompute_config:
  recompute: [[0, 0]]
  select_recompute: [[0, 0]]
  select_comm_recompute: [[0, 0]]
parallel_config:
  pipeline_stage: 2
  micro_batch_num: 2
  seq_split_num: 1
parallel:
  pipeline_config:
    pipeline_interleave: false
    pipeline_scheduler: "1f1b"
"""

pytestmark = pytest.mark.usefixtures("fake_solver")


def test_prints_what_people_come_for_then_the_plan(folder, evenflow):
    result = evenflow("plan", "tiny.json", *SIZES, "--memory", "250MB")
    assert result.exit_code == 0
    assert result.stdout == PLAN_TEXT


def test_the_lines_of_a_framework_come_with_its_name_alone(folder, evenflow):
    command = ("plan", "tiny.json", *SIZES, "--memory", "250MB", "--schedule", "1f1b")
    assert "model_config" not in evenflow(*command).stdout
    for_framework = evenflow(*command, "--target", "mindformers", "--json", "plan.json").stdout
    assert "\nnext: evenflow apply plan.json FILE edits your own file\n" in for_framework
    assert "model_config" in for_framework
    kept = evenflow(*command, "--json", "plan.json")
    assert "\nnext: evenflow export plan.json --to NAME prints it for your framework\n" in kept.stdout


def test_the_plan_of_a_file_and_equal_stages_stand_beside_the_step(folder, evenflow):
    """Both stages have 2 layers of 3 ms and 1 ms of recomputation in the file: 24 ms. Without it, 240 MB are needed."""
    recomputing = ("--layers", "2,2", "--recompute", "full=2,2", "--microbatches", 2, "--json", "plan.json")
    assert evenflow("simulate", "tiny.json", *recomputing, "--memory", "230MB").exit_code == 0
    lines = evenflow("plan", "plan.json", "--memory", "250MB").stdout.splitlines()
    assert lines[2:4] == ["step 18.000 ms", "25.0 % shorter than the plan of the file: 24.0 ms"]
    tight = evenflow("plan", "tiny.json", *SIZES, "--memory", "230MB").stdout.splitlines()
    assert tight[2:5] == [
        "step 24.000 ms",
        "33.3 % longer than equal stages, nothing recomputed: 18.0 ms, does not fit",
        "as long as equal stages, recompute full everywhere",
    ]


def test_tokens_are_counted_where_the_model_says_them(folder, evenflow):
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 4}
    config |= {"num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 320}
    Path("config.json").write_text(json.dumps(config))
    sizes = (*SIZES, "--tensor", 2, "--data", 2, "--microbatch", 3, "--seq", 100)
    result = evenflow("plan", "config.json", "--accelerator", "h100", *sizes, "--json", "plan.json")
    assert result.exit_code == 0, result.stderr
    step_s = json.loads(Path("plan.json").read_text())["makespan_ms"] / 1000
    # 2 microbatches of 3 sequences of 100 tokens on each of 2 copies, by 2 x 2 x 2 devices
    assert f", at most {2 * 3 * 100 * 2 / step_s / 8:,.1f} tokens/s per device\n" in result.stdout


def test_quiet_prints_only_the_block(folder, evenflow):
    result = evenflow("plan", "tiny.json", *SIZES, "--quiet")
    assert (result.exit_code, result.stdout, result.stderr) == (0, BLOCK, "")


def test_reads_standard_input(folder, evenflow):
    text = (folder / "tiny.json").read_text()
    assert evenflow("plan", "-", *SIZES, "--quiet", stdin=text).stdout == BLOCK


def test_json_reads_back_as_the_plan(folder, evenflow):
    # 230 MB is less than the 240 MB without recompute, and more than the 204 MB with it.
    result = evenflow("plan", "tiny.json", *SIZES, "--memory", "230MB", "--json", "new/plan.json")
    assert result.exit_code == 0
    assert "wrote new/plan.json" in result.stdout
    written = json.loads((folder / "new/plan.json").read_text())
    assert written["status"] == "feasible"
    assert written["makespan_ms"] == 24.0  # a backward takes 6 ms: B0 at 4..10 and B1 at 12..18 on rank 1, then B1 on 0
    plan = read_plan_file("new/plan.json")
    assert plan.layers == ((2, 2),)
    assert plan.recompute == {"full": ((2, 2),)}


def test_draws_the_picture(folder, evenflow):
    assert evenflow("plan", "tiny.json", *SIZES, "--svg", "plan.svg").exit_code == 0
    assert (folder / "plan.svg").read_text().startswith("<svg")


def test_infeasible_says_rank_limit_and_advice_and_writes_json(folder, evenflow):
    result = evenflow("plan", "tiny.json", *SIZES, "--memory", "100MB", "--json", "no.json", "--svg", "no.svg")
    assert result.exit_code == 3
    assert result.stdout == ""
    for part in ("100 MB", "rank 0 binds", "204 MB", "more ranks would help"):
        assert part in result.stderr
    assert not (folder / "no.svg").exists()
    written = json.loads((folder / "no.json").read_text())
    assert written["status"] == "infeasible"
    assert written["smallest_limit_mb"] == 204.0
    assert (written["makespan_ms"], written["layers"], written["bubble"]) == (None, None, None)
    assert (written["ranks"], written["memory_limit_mb"]) == (2, 100.0)


def test_time_without_a_plan(folder, evenflow, monkeypatch):
    nothing = Outcome(
        status=Status.TIMEOUT, simulation=None, lower_bound_ns=5, memory_limit_bytes=None, solve_seconds=1.0
    )
    monkeypatch.setattr(solve, "solve", lambda *_, **__: nothing)
    result = evenflow("plan", "tiny.json", *SIZES)
    assert result.exit_code == 4
    assert "time" in result.stderr


@pytest.mark.parametrize("error", [KeyboardInterrupt, Interrupted])
def test_interrupted_without_a_plan(folder, evenflow, monkeypatch, error):
    def stop(*_, **__):
        raise error

    monkeypatch.setattr(solve, "solve", stop)
    result = evenflow("plan", "tiny.json", *SIZES)
    assert result.exit_code == 130
    assert "interrupted" in result.stderr


def test_options_reach_the_solver(folder, evenflow, monkeypatch):
    asked = {}

    def record(request, **options):
        asked.update(options, request=request)
        raise Interrupted

    monkeypatch.setattr(solve, "solve", record)
    monkeypatch.setattr("evenflow.solve.time_left.now_s", lambda: 0.0)
    evenflow(
        "plan", "tiny.json", "--ranks", 2, "--microbatches", 3, "--chunks", 2, "--less-memory", "--memory", "1GB",
        "--mix", "any", "--allow-empty", "--time-limit", 7, "--sequence-splits", 2,
        "--p2p-latency-us", 5, "--p2p-bandwidth-gbps", 8, "--boundary-mb", 1,
    )  # fmt: skip
    request = asked.pop("request")
    message = request.communication
    # 2^20 bytes are 8 * 2^20 bits; at 8 bits a nanosecond 2^20 ns, and half of it for half a sequence.
    assert (message.latency_ns, message.transfer_ns) == (5000, 2**19)
    asked.pop("progress")
    assert request == Request(
        network=request.network,
        sizes=Sizes(num_ranks=2, num_microbatches=3, num_chunks=2, sequence_splits=2),
        memory_limit_bytes=2**30,
        cell_rule=ANY_CONTENT,
        allow_empty=True,
        communication=message,
    )
    assert asked.pop("known") == ()
    assert asked == {
        "schedule": "interleaved-less-memory",
        "time_limit_s": pytest.approx(6.3, rel=1e-4),
    }  # the rest is for the neighbours


@pytest.mark.parametrize("verb", ["plan", "compare"])
def test_full_recomputation_that_is_left_out_is_told_first(folder, evenflow, verb):
    result = evenflow(verb, "tiny.json", *SIZES, "--sequence-splits", 2)
    assert result.exit_code == 0
    assert result.stderr.startswith("note: full recomputation is left out, because sequences are in 2 parts")
    assert "left out" not in evenflow(verb, "tiny.json", *SIZES).stderr


def test_says_that_no_limit_is_checked(folder, evenflow):
    assert "no limit was given" in evenflow("plan", "tiny.json", *SIZES).stdout
    bare = {"layers_description": [{"name": "L", "type": "BODY", "nb_layer": 4, "time": 1}]}
    Path("bare.json").write_text(json.dumps(bare))
    result = evenflow("plan", "bare.json", *SIZES, "--memory", "1MB")
    assert result.exit_code == 0
    assert "no limit is checked" in result.stdout
    assert "--memory is not checked" in result.stderr


def test_a_plan_that_mindformers_cannot_express_has_no_block(folder, evenflow, monkeypatch):
    def refuse(_plan, **_):
        raise InputError(value="swap", rule="must be a kind it has", place="recompute")

    monkeypatch.setattr("evenflow.cli.text.block_text.format_mindformers", refuse)
    result = evenflow("plan", "tiny.json", *SIZES, "--memory", "250MB", "--quiet")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "note: no block for MindFormers; recompute must be a kind it has" in result.stderr


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (("--memory", "much"), ("--memory", "'much'")),
        (("--ranks", 0), ("--ranks", "0")),
        (("--ranks", "x"), ("--ranks", "'x'")),
        (("--ranks", 5, "--no-empty"), ("5 ranks", "4")),
        (("--microbatches", 10**9), ("2,000,000",)),
        (("--schedule", "1f2b"), ("schedule", "'1f2b'", "did you mean 1f1b?")),
        (("--svg", "plan.pdf"), ("--svg must end in .svg or .png", "plan.pdf", "name it plan.svg")),
        (("--schedule", "bset"), ("'bset'", "best, search", "did you mean best?")),
        (("--schedule", "serach"), ("best, search", "did you mean search?")),
        (("--schedule", "1f1b", "--chunks", 2), ("1f1b", "interleaved")),
        (("--schedule", "1f1b", "--less-memory"), ("--schedule", "less-memory")),
        (("--time-limit", "nan"), ("--time-limit", "nan")),
        (("--time-limit", 0), ("--time-limit", "0")),
        (("--boundary-mb", 4), ("--boundary-mb", "add --p2p-bandwidth")),
        (("--p2p-bandwidth-gbps", 4), ("--p2p-bandwidth-gbps", "add --boundary")),
        (("--p2p-bandwidth-gbps", 0, "--boundary-mb", 1), ("--p2p-bandwidth-gbps", "above zero")),
        (("--p2p-latency-us", "nan"), ("--p2p-latency-us", "nan")),
        (("--mix", "x"), ("--mix", "mindformers")),
        (("--json", "tiny.json"), ("--json", "layer file")),
        (("--json", "a", "--svg", "a"), ("--svg", "--json")),
        (("--json", "."), ("--json", "folder")),
        (("--svg", "tiny.json/a.svg"), ("--svg", "cannot write")),
        (("--no-such-option",), ("--no-such-option",)),
    ],
)
def test_bad_input_is_one_message_and_nothing_is_written(folder, evenflow, options, parts):
    result = evenflow("plan", "tiny.json", *SIZES, *options)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    for part in parts:
        assert part in result.stderr
    assert [path.name for path in folder.iterdir()] == ["tiny.json"]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"layers_description": []}', "\x00", "{" * 5000])
def test_bad_layer_files_are_one_message(folder, evenflow, text):
    result = evenflow("plan", "-", *SIZES, stdin=text)
    assert result.exit_code == 2
    assert result.stderr.startswith(("error: standard input", "error: cannot read standard input"))
    assert result.stderr.count("\n") == 1


def test_entries_under_another_key_are_no_plan_file(folder, evenflow):
    entries = json.loads((folder / "tiny.json").read_text())["layers_description"]
    (folder / "odd.json").write_text(json.dumps({"layers": entries}))
    result = evenflow("plan", "odd.json", "--ranks", 2, "--microbatches", 4)
    assert result.exit_code == 2
    assert "layers is an unknown field; the fields are adapter_rank, auto_partition_layer" in result.stderr


def test_a_file_that_fails_late_does_not_take_the_plan_with_it(folder, evenflow, monkeypatch):
    def full_disk(*_, **__):
        raise FileError("plan.json", action="write", reason="no space left")

    monkeypatch.setattr("evenflow.cli.shared.files.output_files.write_whole", full_disk)
    result = evenflow("plan", "tiny.json", *SIZES, "--json", "plan.json")
    assert result.exit_code == 2
    assert PLAN_TEXT.splitlines()[0] in result.stdout
    assert "no space left" in result.stderr


def test_chunks_follow_the_schedule(evenflow, folder):
    result = evenflow(
        "plan", "tiny.json", "--ranks", 2, "--microbatches", 4, "--schedule", "zbv", "--json", "plan.json"
    )
    assert result.exit_code == 0
    assert "2 ranks x 2 chunks, 4 microbatches, zbv" in result.stdout
    again = evenflow("simulate", "tiny.json", "plan.json")
    assert again.exit_code == 0
    assert "2 ranks x 2 chunks, 4 microbatches, zbv" in again.stdout
    even = evenflow("simulate", "tiny.json", "--ranks", 2, "--microbatches", 4, "--schedule", "zbv")
    assert "2 ranks x 2 chunks" in even.stdout
    compared = evenflow("compare", "tiny.json", "--ranks", 2, "--microbatches", 4, "--schedule", "v-min")
    assert compared.exit_code == 0
    assert "naive_no_recomp" in compared.stdout


def test_chunks_that_the_schedule_has_not(evenflow, folder):
    for verb in ("plan", "simulate", "compare"):
        result = evenflow(verb, "tiny.json", "--ranks", 2, "--microbatches", 4, "--schedule", "zbv", "--chunks", 1)
        assert result.exit_code == 2
        assert "error: chunks must be 2 per rank for zbv, got 1; take 2 chunks, or interleaved" in result.stderr


def test_a_confidence_needs_memory_that_was_fitted(folder, evenflow):
    result = evenflow("plan", "tiny.json", *SIZES, "--memory", "1GB", "--confidence", 0.9)
    assert result.exit_code == 2
    assert "--confidence must come with layers whose memory was fitted to peaks" in result.stderr


def test_fitted_memory_leaves_the_error_of_a_peak_free_and_more_for_a_confidence(folder, evenflow):
    fields = json.loads(Path("tiny.json").read_text())
    error = {"standard_error_mb": 5, "degrees_of_freedom": 8, "terms": ["constant"], "covariance": [[0.2]]}
    Path("fitted.json").write_text(json.dumps({**fields, "peak_error": error}))
    limits = []
    for more in ([], ["--confidence", 0.9], ["--confidence", 0.99]):
        result = evenflow("plan", "fitted.json", *SIZES, "--memory", "10GB", *more, "--json", "p.json", "--overwrite")
        assert result.exit_code == 0
        assert "fits in 10,240 MB with probability > 0.99: fitted peaks are 5 MB off" in result.stdout
        written = json.loads(Path("p.json").read_text())
        assert written["fits"]["limit_mb"] == 10240
        limits.append(written["memory_limit_mb"])
    assert limits[0] == 10235
    assert limits == sorted(limits, reverse=True)
