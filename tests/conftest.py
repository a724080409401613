"""Property tests have no deadline: how fast a machine is decides no test. Commands speak English in every locale."""

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.thoroughness import examples

settings.register_profile(
    "evenflow", max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("evenflow")

os.environ["EVENFLOW_LANG"] = "en"
os.environ.pop("COLUMNS", None)
"""Results in files and pipes are as wide as they need to be."""

collect_ignore_glob = ["*conftest.py"]
"""Files of this name hold fixtures; looking for doctests in two of them clashes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that start processes come first: the long ones, so that no worker waits for another at the end."""
    first = {item.path for item in items if item.get_closest_marker("processes")}
    items.sort(key=lambda item: item.path not in first)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Compile before the first test: no time limit of a test is spent on it."""
    from tests.loops import compile_loops

    if session.items and not session.config.option.collectonly:
        compile_loops()
