"""Files as timelines of a report."""

import json

import pytest

from evenflow.errors import InputError
from evenflow.export.results.json_text import format_object
from evenflow.profiles.plan_fields import network_fields, simulation_fields
from evenflow.profiles.report_file import carried_plans
from evenflow.report import Kind, report_html
from evenflow.report.of_files import shown_of_text, with_own_names
from evenflow.simulate import simulate
from tests.report.decoder import read_page
from tests.simulate.test_simulation import by_hand


def plan_file(**changes: object) -> str:
    simulation = simulate(*by_hand())
    return format_object(simulation_fields(simulation, 2000) | network_fields(simulation) | changes)


def test_a_plan_file_is_simulated_with_its_model():
    (shown,) = shown_of_text(plan_file(), place="p.json", name="p")
    assert (shown.name, shown.kind, shown.makespan_ns, shown.limit_bytes) == ("p", Kind.PLAN, 31, 2000)
    assert shown.certificate == ""
    assert json.loads(shown.plan or "") == json.loads(plan_file())


def test_a_report_of_a_report_is_the_same():
    first = report_html(list(shown_of_text(plan_file(), place="p.json", name="p")), title="t")
    again = report_html(list(shown_of_text(first, place="r.html", name="r")), title="t")
    one, two = read_page(first), read_page(again)
    assert one.columns == two.columns
    assert one.plans == two.plans
    assert one.head == two.head
    assert len(carried_plans(again, place="r.html")) == 1


def test_a_proof_is_told_again():
    proven = plan_file(status="feasible", lower_bound_ms=31e-6 * 0.75)
    (shown,) = shown_of_text(proven, place="p.json", name="p")
    assert shown.certificate.startswith("within 25.81 % of optimal: ")
    (shown,) = shown_of_text(plan_file(status="optimal", lower_bound_ms=31e-6), place="p.json", name="p")
    assert shown.certificate == "optimal to 2 parts in a million: no plan of this schedule is shorter than 0.000 ms"
    for unknown in ({"status": "feasible", "lower_bound_ms": None}, {"status": ["optimal"], "lower_bound_ms": 1}):
        (shown,) = shown_of_text(plan_file(**unknown), place="p.json", name="p")
        assert shown.certificate == ""


def test_layers_of_a_two_level_plan_are_not_moved():
    (shown,) = shown_of_text(plan_file(), place="p.json", name="p")
    assert shown.what_if is not None
    assert "why_not" not in shown.what_if
    (shown,) = shown_of_text(plan_file(two_level={}), place="p.json", name="p")
    assert "devices of their stage" in str(shown.what_if)


def test_names_are_told_apart():
    shown = [*shown_of_text(plan_file(), place="p.json", name="p")] * 3
    assert [each.name for each in with_own_names(shown)] == ["p", "p (2)", "p (3)"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "f must be a plan file, the timeline of a run, a report, "),
        ('{"layers_description": []}', "f must be a plan file, the timeline of a run, a report, "),
        ("[1]", "f must be an object of named fields"),
        ("", "cannot read f: "),
        ('{"layers": [[1]]}', "f must have the field"),
        ("<!doctype html>", "f must be a report that evenflow wrote"),
    ],
)
def test_other_files_are_refused(text: str, message: str):
    with pytest.raises(InputError, match=message):
        list(shown_of_text(text, place="f", name="f"))


def test_a_plan_without_its_model_is_refused():
    fields = json.loads(plan_file())
    del fields["network"]
    with pytest.raises(InputError, match="f must hold its model, as 'network'; plan again"):
        list(shown_of_text(json.dumps(fields), place="f", name="f"))
