"""Peaks by stage, none missing."""

import pytest

from evenflow.errors import InputError
from evenflow.profiles.logs.stage_peaks import peaks_in_order


def test_stages_in_order() -> None:
    assert peaks_in_order({2: 5, 0: 7, 1: 6}, place="log") == (7, 6, 5)


@pytest.mark.parametrize(
    ("stages", "names"),
    [((0, 3), "0 to 3, and has none of 1, 2; run"), (range(12, 14), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …; run")],
)
def test_missing_stages_are_named(stages, names) -> None:
    with pytest.raises(InputError) as caught:
        peaks_in_order(dict.fromkeys(stages, 1), place="log")
    assert str(caught.value).startswith("log must have a peak of every stage from 0 to ")
    assert names in str(caught.value)
