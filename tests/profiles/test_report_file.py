"""Reports as plan files: what was carried comes out, and what is damaged or foreign gives one message."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.export.results.json_text import format_object
from evenflow.profiles.report_file import carried_plans, is_report, plan_text, read_plan_text
from evenflow.report import report_html, shown_simulation
from evenflow.simulate import simulate
from tests.simulate.test_simulation import by_hand


def page(*plans: str | None, names: tuple[str, ...] = ()) -> str:
    shown = [
        shown_simulation(simulate(*by_hand()), name=name, memory_limit_bytes=None, plan=plan)
        for name, plan in zip(names or tuple("abcdefgh"), plans, strict=False)
    ]
    return report_html(shown, title="t")


@given(st.lists(st.dictionaries(st.text(), st.text() | st.integers()), min_size=1, max_size=4))
def test_what_was_carried_comes_out(fields):
    html = page(*map(format_object, fields))
    assert is_report(html)
    plans = carried_plans(html, place="r.html")
    assert [json.loads(plan.text) for plan in plans] == fields
    assert [plan.name for plan in plans] == list("abcd")[: len(fields)]
    assert [plan.place for plan in plans] == [f"r.html#{number}" for number in range(1, len(fields) + 1)]


@given(st.text(max_size=30))
def test_no_name_of_a_plan_hides_it(name):
    name = name.strip() or "x"
    (plan,) = carried_plans(page('{"a": 1}', names=(f"{name}</script>",)), place="r.html")
    assert json.loads(plan.text) == {"a": 1}


def test_timelines_without_a_plan_do_not_count():
    html = page(None, '{"b": 1}', None, '{"d": 1}')
    assert [plan.name for plan in carried_plans(html, place="r.html")] == ["b", "d"]
    assert json.loads(plan_text(html, place="r.html", number=2)[0]) == {"d": 1}


def test_a_plan_file_is_left_as_it_is():
    assert plan_text('{"a": 1}', place="p.json") == ('{"a": 1}', "p.json")


def test_a_plan_of_a_file_by_its_number(tmp_path):
    (tmp_path / "r.html").write_text(page('{"a": 1}', '{"b": 1}'))
    file = str(tmp_path / "r.html")
    assert json.loads(read_plan_text(file)[0]) == {"a": 1}
    assert json.loads(read_plan_text(f"{file}#2")[0]) == {"b": 1}
    with pytest.raises(InputError, match=r"r.html must have a plan of that number, got 3; it has #1 a, #2 b"):
        read_plan_text(f"{file}#3")
    with pytest.raises(InputError, match=r"must have a plan of that number, got 0"):
        read_plan_text(f"{file}#0")
    (tmp_path / "r.html#2").write_text('{"own": 1}')
    assert json.loads(read_plan_text(f"{file}#2")[0]) == {"own": 1}, "a file of that very name comes first"


@pytest.mark.parametrize(
    "text",
    [
        "<!doctype html>",
        "<!DOCTYPE HTML><html><body>hello</body></html>",
        page(None),
        page('{"a": 1}').replace("evenflow-head", "other-head"),
        page('{"a": 1}').replace('id="evenflow-plan-0"', 'id="plan"'),
        page('{"a": 1}', '{"b": 1}').replace('"plan":1', '"plan":null'),
    ],
)
def test_a_foreign_page_is_refused(text: str):
    with pytest.raises(InputError, match=r"^r.html must be a report (that evenflow wrote|with a plan in it); "):
        plan_text(text, place="r.html")


@given(st.data())
def test_a_damaged_page_gives_no_other_error(data: st.DataObject):
    text = page('{"a": 1}')
    cut = data.draw(st.integers(15, len(text) - 1))
    length = data.draw(st.integers(0, 40))
    damaged = text[:cut] + data.draw(st.text(max_size=5)) + text[cut + length :]
    with suppress(InputError):
        carried_plans(damaged, place="r.html")
