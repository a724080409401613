"""Deadlines of two-level plans never come, however slow the machine is."""

from collections.abc import Iterator

import pytest

from tests.clocks import standing


@pytest.fixture(autouse=True, scope="session")
def _the_clock_of_deadlines_stands() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evenflow_torch.auto.deadline.monotonic", standing)
        yield
