"""The verb: pages of files, and pages where a plan file is taken."""

import json
import re

import pytest

from evenflow.profiles.layer_file import read_layer_file
from evenflow.profiles.plan_file import read_plan_file
from evenflow.simulate import simulate
from tests.profiles.steps.builders import kineto_events, named_actions, step_fields, write_primus
from tests.report.decoder import read_page

EVEN = ("--microbatches", 2, "--layers", "2,2")


@pytest.fixture
def plans(folder, evenflow):
    """`a.json` and `a.html`, `b.json` with recomputation."""
    files = ("--json", "a.json", "--html", "a.html", "--memory", "250MB")
    assert evenflow("simulate", "tiny.json", *EVEN, *files).exit_code == 0
    assert evenflow("simulate", "tiny.json", *EVEN, "--recompute", "full=1,1", "--json", "b.json").exit_code == 0
    return folder


def test_plans_beside_each_other(plans, evenflow):
    done = evenflow("report", "a.json", "b.json", "-o", "both.html")
    assert done.exit_code == 0, done.stderr
    assert done.stdout == "a: 18 ms\nb: 21 ms\n\nwrote both.html\n"
    page = read_page((plans / "both.html").read_text())
    assert page.head["title"] == "a, b"
    assert [each["makespan_ns"] for each in page.head["timelines"]] == [18_000_000, 21_000_000]
    files = [json.loads((plans / name).read_text()) for name in ("a.json", "b.json")]
    for file in files:
        del file["written_by"]
    assert page.plans == files


def test_a_page_carries_what_json_writes(plans, evenflow):
    carried = read_page((plans / "a.html").read_text()).plans
    written = json.loads((plans / "a.json").read_text())
    assert carried == [{key: value for key, value in written.items() if key != "written_by"}]


@pytest.mark.parametrize("verb", ["simulate", "simulate -", "plan", "export", "report"])
def test_a_report_goes_where_a_plan_file_goes(plans, evenflow, verb, fake_solver):
    more = {"export": ("--to", "megatron"), "plan": ("--time-limit", 1), "report": ("-o", "r.html")}.get(verb, ())
    name, *stdin = verb.split()
    text = (plans / "a.html").read_text()
    of_report = evenflow(name, *(stdin or ["a.html"]), *more, stdin=text if stdin else None)
    of_plan = evenflow(name, "a.json", *more)
    assert of_report.exit_code == of_plan.exit_code == 0, of_report.stderr
    if verb == "report":
        assert of_report.stdout == of_plan.stdout.replace("a:", "simulated:")
    else:
        assert of_report.stdout == of_plan.stdout


def test_the_second_plan_of_a_report(plans, evenflow):
    assert evenflow("report", "a.json", "b.json").exit_code == 0
    again = evenflow("simulate", "report.html#2", "--json", "c.json")
    assert again.exit_code == 0, again.stderr
    assert (plans / "c.json").read_text() == (plans / "b.json").read_text()
    refused = evenflow("simulate", "report.html#3")
    assert refused.exit_code == 2
    assert refused.stderr == "error: report.html must have a plan of that number, got 3; it has #1 a, #2 b\n"


def test_reports_are_shown_again_under_their_names(plans, evenflow):
    assert evenflow("report", "a.json", "b.json", "a.html", "a.json", "-o", "all.html").exit_code == 0
    assert evenflow("report", "all.html", "-o", "again.html").exit_code == 0
    pages = [read_page((plans / name).read_text()) for name in ("all.html", "again.html")]
    names = [[each["name"] for each in page.head["timelines"]] for page in pages]
    assert names == [["a", "b", "simulated", "a (2)"]] * 2
    assert pages[0].columns == pages[1].columns


def test_one_plan_of_a_report(plans, evenflow):
    assert evenflow("report", "a.json", "b.json").exit_code == 0
    done = evenflow("report", "report.html#2", "-o", "one.html")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("report: 21 ms\n\n")


def test_one_standard_input(plans, evenflow):
    done = evenflow("report", "-", stdin=(plans / "a.json").read_text())
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("stdin: 18 ms")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a.json", "-o", "page.png"), "-o must end in .html, the format of pages, got 'page.png'; name it page.html"),
        (("a.html", "-o", "a.html"), "-o must not be the same file as the input file a.html, got 'a.html'"),
        (("a.html#1", "-o", "a.html"), "-o must not be the same file as the input file a.html#1, got 'a.html'"),
        (("tiny.json",), "tiny.json must be a plan file, the timeline of a run, a report, or a measured step"),
        (("none.json",), "cannot read none.json: no such file"),
        ((), "Missing argument 'FILE…'"),
    ],
)
def test_bad_input_gives_one_message(plans, evenflow, arguments, message):
    done = evenflow("report", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr
    assert not (plans / "report.html").exists()


@pytest.mark.parametrize("html", ["page.png", "page.svg", "page.json"])
def test_a_page_is_no_picture(folder, evenflow, html):
    done = evenflow("simulate", "tiny.json", *EVEN, "--html", html)
    assert done.exit_code == 2
    assert done.stderr == f"error: --html must end in .html, the format of pages, got '{html}'; name it page.html\n"


def test_a_page_in_chinese(folder, evenflow):
    assert evenflow("--lang", "zh", "simulate", "tiny.json", *EVEN, "--html", "zh.html").exit_code == 0
    text = (folder / "zh.html").read_text()
    assert '<html lang="zh">' in text
    (plan,) = read_page(text).plans
    assert re.fullmatch(r"[\x00-\x7f]*", json.dumps(plan, ensure_ascii=False)), "programs read English"


def test_a_measured_step_beside_a_plan(plans, evenflow):
    timeline = simulate(read_layer_file("tiny.json"), read_plan_file("a.json")).timeline
    (plans / "step.json").write_text(json.dumps(step_fields(timeline)))
    write_primus(plans / "pp_data", timeline)
    for rank in range(2):
        (plans / "traces").mkdir(exist_ok=True)
        events = kineto_events(named_actions(timeline, rank, offset_ns=10**6))
        (plans / "traces" / f"rank{rank}.json").write_text(json.dumps({"traceEvents": events}))
    done = evenflow("report", "a.json", "step.json", "pp_data", "traces", "traces/", "-o", "both.html")
    assert done.exit_code == 0, done.stderr
    names = ["step, measured", "pp_data, measured", "traces, measured", "traces, measured (2)"]
    begins = "\n".join(["a: 18 ms", *(f"{name}: 18 ms" for name in names), "", "step, measured:", ""])
    assert done.stdout.startswith(begins)
    assert all(f"a minus {name}: +0.000 ms of 18.000 ms" in done.stdout for name in names)
    assert done.stdout.endswith("\n\nwrote both.html\n")
    timelines = read_page((plans / "both.html").read_text()).head["timelines"]
    assert [each["kind"] for each in timelines] == ["plan", *["measured"] * 4]
    again = evenflow("report", "-", "-o", "again.html", stdin=(plans / "step.json").read_text())
    assert again.stdout.startswith("stdin, measured: 18 ms\n")


def test_a_step_of_the_folder_that_one_is_in_has_its_name(plans, evenflow, monkeypatch):
    timeline = simulate(read_layer_file("tiny.json"), read_plan_file("a.json")).timeline
    monkeypatch.chdir(write_primus(plans / "pp_data", timeline))
    assert evenflow("report", ".").stdout.startswith("pp_data, measured: 18 ms\n")


def test_a_folder_of_nothing_is_one_message(plans, evenflow):
    (plans / "empty").mkdir()
    done = evenflow("report", "empty", "-o", "both.html")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: empty must have traces")


def test_the_prediction_minus_what_was_measured_is_printed_and_written(plans, evenflow):
    timeline = simulate(read_layer_file(plans / "tiny.json"), read_plan_file(plans / "a.json")).timeline
    for rank in range(2):
        actions = [
            (name, start, end + (end - start) // 10 * (name[3] == "1"))
            for name, start, end in named_actions(timeline, rank, offset_ns=10**6)
        ]
        (plans / "traces").mkdir(exist_ok=True)
        trace = {"schemaVersion": 1, "traceEvents": kineto_events(_apart(actions))}
        (plans / "traces" / f"rank{rank}.json").write_text(json.dumps(trace))
    done = evenflow("report", "a.json", "traces", "-o", "both.html", "--json", "both.json")
    assert done.exit_code == 0, done.stderr
    assert "told by ranges such as PP:2F3; each says its stage and microbatch." in done.stdout
    assert "rank  working %  communication %  waiting %" in done.stdout
    assert "a minus traces, measured: " in done.stdout
    written = json.loads((plans / "both.json").read_text())
    (pair,) = written["differences"]
    assert {row["stage"]: row["predicted_minus_measured_ms"] < 0 for row in pair["by_stage"]} == {0: False, 1: True}
    assert pair["actions_of_one_alone"] == 0
    head = read_page((plans / "both.html").read_text()).head["timelines"][1]
    for idle in head["idle"]:
        assert idle["waiting_ns"] + idle["communication_ns"] == idle["total_ns"]


def _apart(actions):
    """The same actions, each begun when the one before on its rank has ended at the latest."""
    moved, free = [], 0
    for name, start, end in actions:
        later = max(0, free - start)
        moved.append((name, start + later, end + later))
        free = end + later
    return moved


def test_a_regular_expression_reads_any_names(plans, evenflow):
    timeline = simulate(read_layer_file(plans / "tiny.json"), read_plan_file(plans / "a.json")).timeline
    (plans / "traces").mkdir()
    for rank in range(2):
        actions = [
            (f"stage {name[3]} does {name[4]} for {name[5:]}", start, end)
            for name, start, end in named_actions(timeline, rank, offset_ns=10**6)
        ]
        trace = {"schemaVersion": 1, "traceEvents": kineto_events(actions)}
        (plans / "traces" / f"rank{rank}.json").write_text(json.dumps(trace))
    pattern = r"stage (?P<stage>\d) does (?P<op>\w) for (?P<microbatch>\d+)"
    done = evenflow("report", "traces", "--actions", pattern, "-o", "page.html")
    assert done.exit_code == 0, done.stderr
    assert "8 actions, told by the names that --actions matches" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a.json", "--actions", "(?P<op>F)"), "must come with the timelines of a profiler"),
        (("a.json", "--actions", "("), "must be a regular expression of Python"),
    ],
)
def test_an_expression_is_never_ignored(plans, evenflow, arguments, message):
    done = evenflow("report", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
