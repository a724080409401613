"""The API reference shows the same keywords as the functions have."""

import inspect

import pytest

import evenflow
from tests.paths import ROOT

griffe = pytest.importorskip("griffe")


@pytest.mark.parametrize(
    ("home", "name"),
    [
        ("solve.plan", "plan"),
        ("solve.best", "plan_best"),
        ("solve.order.alternate", "plan_any_order"),
        ("targets.planning", "plan_for_target"),
    ],
)
def test_a_function_of_a_request_is_shown_with_its_keywords(loaded, home, name):
    shown = loaded[f"{home}.{name}"].parameters
    real = inspect.signature(getattr(evenflow, name)).parameters
    assert [parameter.name for parameter in shown] == list(real)
    for parameter in shown:
        assert parameter.kind.value == real[parameter.name].kind.description
        assert (parameter.default is None) == (real[parameter.name].default is inspect.Parameter.empty)


@pytest.fixture(scope="module")
def loaded():
    """The package as the documentation reads it."""
    extensions = griffe.load_extensions(str(ROOT / "scripts" / "request_signatures.py"))
    return griffe.load("evenflow", search_paths=[str(ROOT / "src")], extensions=extensions)
