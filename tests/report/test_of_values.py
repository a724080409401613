"""Results of library calls as pages, and as what a notebook shows."""

import html
import json
import re

import pytest

import evenflow
from evenflow import notebook
from evenflow.draw.parts.axes import show_time
from evenflow.errors import InputError
from evenflow.profiles.plan_file import parse_plan
from evenflow.report.of_tune import tuned_configurations
from evenflow.report.of_values import notebook_html, report_page
from evenflow.simulate import simulate
from evenflow.solve import Outcome, Status
from tests.paths import ROOT
from tests.report.decoder import read_page
from tests.simulate.test_simulation import by_hand

SIMULATION = simulate(*by_hand())
OUTCOME = Outcome(
    status=Status.OPTIMAL, simulation=SIMULATION, lower_bound_ns=31, memory_limit_bytes=2000, solve_seconds=0.1
)
NOTHING = Outcome(status=Status.TIMEOUT, simulation=None, lower_bound_ns=0, memory_limit_bytes=2000, solve_seconds=0.1)


def test_values_beside_each_other():
    page = read_page(report_page(OUTCOME, SIMULATION, SIMULATION, names=["planned"]))
    assert [each["name"] for each in page.head["timelines"]] == ["planned", "three", "three (2)"]
    assert page.head["title"] == "planned, three, three (2)"
    assert page.head["timelines"][0]["certificate"] == OUTCOME.certificate()
    assert page.head["timelines"][0]["limit_bytes"] == 2000
    plans = [parse_plan(json.dumps(plan), place="p") for plan in page.plans]
    assert plans == [SIMULATION.plan] * 3


def test_the_public_name():
    assert evenflow.report_page(SIMULATION, title="mine") == report_page(SIMULATION, title="mine")


@pytest.mark.parametrize("values", [(), (NOTHING,), (SIMULATION, NOTHING)])
def test_what_has_no_plan_cannot_be_shown(values):
    with pytest.raises(InputError, match="to be shown"):
        report_page(*values)


@pytest.mark.parametrize("value", [SIMULATION, OUTCOME])
def test_a_notebook_shows_a_page_in_a_frame(value):
    shown = value._repr_html_()
    found = re.fullmatch(r'<iframe srcdoc="([^"]*)" sandbox="allow-scripts allow-downloads" [^<>]*></iframe>', shown)
    assert found is not None
    assert html.unescape(found[1]) == report_page(value)
    assert value._repr_html_() == shown, "the same every time"


def test_a_notebook_shows_why_there_is_no_plan():
    assert NOTHING._repr_html_() == "<pre>no plan was found in the time given</pre>"


def test_other_values_are_left_to_the_notebook():
    assert notebook_html("text") is None


def test_without_a_way_a_value_is_shown_as_text(monkeypatch):
    monkeypatch.setattr(notebook, "_ways", [])
    assert SIMULATION._repr_html_() is None


def test_a_ranking_shows_its_first_rows():
    config = ROOT / "examples/configs/llama3_8b.json"
    most = {"chunks": 1, "microbatch": 2, "tensor": 2, "context": 1}
    tuned = evenflow.tune(config, "h100", devices=8, global_batch=16, sequence=2048, most=most, time_limit_s=5)
    page = read_page(report_page(tuned))
    names = [each["name"] for each in page.head["timelines"]]
    assert names[0].startswith("tensor ")
    assert len(names) == min(5, len(tuned.ranked)) == len(page.plans)
    assert page.plans[0]["degrees"]
    # One number for one plan: the figures are those of the ranking, its whole step and its memory with the reserve.
    for candidate, shown in zip(tuned.ranked, page.head["timelines"], strict=False):
        assert candidate.found is not None
        assert shown["step_ns"] == round(candidate.step_ns)
        assert shown["work"]["tokens"] == 16 * 2048
        assert max(shown["peak_bytes"]) == max(candidate.found.rank_bytes)
        assert shown["limit_bytes"] == tuned.question.memory_limit_bytes
        (_step, step), (_peak, peak), *_others = shown["figures"]
        assert step == show_time(round(candidate.step_ns))
        assert "fits" in peak
    solved = [candidate for candidate in tuned.made if candidate.found is not None]
    configurations = tuned_configurations(tuned, recipe=solved[-1])
    assert configurations is not None
    assert len(configurations.dots) == len(solved)
    assert (
        configurations.chosen.step_ns == round(tuned.ranked[0].step_ns) == min(d.step_ns for d in configurations.dots)
    )
    assert configurations.bound_ns <= configurations.chosen.step_ns
    assert configurations.recipe in configurations.dots
    assert '<svg class="curve configurations"' in report_page(tuned)
    assert tuned._repr_html_().startswith("<iframe")
