import base64
import hashlib
import re
from dataclasses import replace

import pytest

from evenflow.errors import InputError
from evenflow.language import CHINESE, speaking
from evenflow.report import Advice, RunBlock, Shown, report_html, shown_simulation
from evenflow.simulate import simulate
from tests.report.decoder import read_page
from tests.simulate.test_simulation import by_hand


def shown(name: str = "by hand", **more: object) -> Shown:
    return replace(shown_simulation(simulate(*by_hand()), name=name, memory_limit_bytes=2000), **more)  # type: ignore[arg-type]


def test_a_page_loads_nothing_and_says_so():
    html = report_html([shown()], title="t")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy[1].split(";"))
    assert rules["default-src"] == rules["connect-src"] == "'none'"
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    markup = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", html, flags=re.DOTALL)
    assert not re.search(r"\b(src|href|style|on[a-z]+)=", markup)


def test_what_a_name_holds_stays_text():
    """Neither markup nor the end of the data's own element."""
    name = '</script><img src=x onerror="alert(1)"> & "quoted" <!--'
    plan = '{"network": "</script><script>alert(1)</script>"}\n'
    page = shown(name, plan=plan, notes=(name,), decision=(Advice(text=name),), run=(RunBlock(title=name, text=name),))
    html = report_html([page], title=name)
    assert "<img" not in html
    assert html.count("</script>") == 4
    found = read_page(html)
    assert found.head["title"] == found.head["timelines"][0]["name"] == name
    assert found.plans == [{"network": "</script><script>alert(1)</script>"}]


def test_the_same_values_give_the_same_bytes():
    assert report_html([shown(), shown("other")], title="t") == report_html([shown(), shown("other")], title="t")


def test_every_timeline_knows_its_plan():
    html = report_html([shown("a"), shown("b", plan='{"b": 1}'), shown("c", plan='{"c": 1}')], title="t")
    page = read_page(html)
    assert [each["plan"] for each in page.head["timelines"]] == [None, 0, 1]
    assert page.plans == [{"b": 1}, {"c": 1}]


def test_a_page_can_be_read_without_its_script():
    html = report_html([shown()], title="t")
    body = html.partition("<main")[2].partition("<script>")[0]
    text = re.sub(r"<[^>]*>", " ", body)
    assert "31 ns" in text
    assert re.search(r"rank 1 +24 +7 +9 +−3 +1 +0", text)
    assert "runs no scripts" in element_text(html, "noscript")


def test_a_page_speaks_the_language_of_the_messages():
    with speaking(CHINESE):
        html = report_html([shown()], title="t")
    assert '<html lang="zh">' in html
    assert read_page(html).head["language"] == "zh"


def test_a_page_of_nothing_is_refused():
    with pytest.raises(InputError, match="timelines must be at least one, to be shown"):
        report_html([], title="t")


def element_text(html: str, tag: str) -> str:
    found = re.search(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
    assert found is not None
    return found[1]


def test_head_of_a_small_plan():
    """Read by a person: three layers on two ranks, of `by_hand`."""
    head = read_page(report_html([shown()], title="t", made_by="evenflow 9")).head
    (timeline,) = head["timelines"]
    assert head["version"] == 1
    assert head["made_by"] == "evenflow 9"
    assert head["unit"] == {"bytes": 1, "name": "B"}
    assert head["rank_word"] == "rank"
    assert timeline["figures"] == [
        ["Step time", "31 ns"],
        ["Peak memory", "1,220 B of 2,000 B, on rank 1: fits, 780 B free"],
        ["Idle, of the step", "38.7 %"],
        ["Bubbles, of model time", "72.2 %: fill and drain 50.0 %, imbalance 16.7 %, recompute 5.6 %"],
        ["Schedule", "1f1b"],
        ["Sizes", "2 ranks × 1 chunk × 2 microbatches"],
        ["Layers", "3"],
    ]
    assert timeline["stage_layers"] == ["layer 0: 1 body; recompute full on 1 layer", "layers 1 to 2: 2 body"]
    assert timeline["idle"][1] == {
        "total_ns": 7,
        "fill_drain_ns": 9,
        "imbalance_ns": -3,
        "recompute_ns": 1,
        "communication_ns": 0,
    }
    assert timeline["rank_starts"] == [0, 4, 8]
    assert timeline["limit_bytes"] == 2000
    assert timeline["static_bytes"] == [1107, 1200]
    assert timeline["peak_bytes"] == [1109, 1220]
