"""A range holds its numbers and no others, and says so."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow import ranges
from evenflow.errors import InputError
from evenflow.fields import MOST_BYTES
from evenflow.model.sizes import MOST_ACTIONS
from evenflow.profiles.traces.formats.events import MOST_EVENT_BYTES
from evenflow.profiles.yaml_values import DEEPEST, MOST_VALUES
from evenflow.ranges import LAYERS, MEGABYTES, MEMORY_BYTES, MILLISECONDS, SECONDS, SHARE, TIME_NS, Range
from evenflow.units import bytes_from_megabytes, nanoseconds_from_milliseconds
from tests.paths import ROOT

BOUNDS = Range(least=2, most=5)
REAL = Range(least=0, most=5, is_whole=False)


@given(st.integers(-10, 10))
def test_integers(value: int) -> None:
    assert (value in BOUNDS) == (2 <= value <= 5)
    assert (value in REAL) == (0 <= value <= 5)
    assert (value in REAL.above_zero) == (0 < value <= 5)


@given(st.floats())
def test_numbers_with_a_fraction(value: float) -> None:
    assert value not in BOUNDS
    assert (value in REAL) == (0 <= value <= 5)


@pytest.mark.parametrize("value", [True, "3", None, [3], {}, math.nan, math.inf, 10**400, -(10**400), 3 + 0j])
def test_what_is_no_number_of_a_range(value: object) -> None:
    assert value not in BOUNDS
    assert value not in SHARE


def test_numbers_of_numpy_are_numbers() -> None:
    assert np.int64(3) in BOUNDS
    assert np.float32(3) in REAL
    assert np.float64(3) not in BOUNDS


@pytest.mark.parametrize(
    ("within", "rule"),
    [
        (LAYERS, "must be an integer from 1 to 100,000"),
        (SHARE, "must be a number from 0.0001 to 1"),
        (MEGABYTES, "must be a number from 0 to 100,000,000 MB"),
        (MEGABYTES.above_zero, "must be a number above zero, at most 100,000,000 MB"),
        (SECONDS, "must be a number above zero, at most 1e+09"),
    ],
)
def test_the_rule_says_both_ends(within: Range, rule: str) -> None:
    with pytest.raises(InputError, match=f"^x {rule.replace('+', '.')}, got -1$"):
        within.check(-1, place="x")


def test_files_and_values_have_the_same_ends() -> None:
    assert bytes_from_megabytes(MEGABYTES.most) == MEMORY_BYTES.most
    assert nanoseconds_from_milliseconds(MILLISECONDS.most) == TIME_NS.most


def test_the_documentation_has_these_numbers() -> None:
    page = " ".join((ROOT / "docs" / "cli.md").read_text(encoding="utf-8").split())
    for names in (
        ("RANKS", "CHUNKS", "SEQUENCE_SPLITS"),
        ("MICROBATCHES",),
        ("LAYERS", "MODEL_LAYERS"),
        ("TOKENS", "SEQUENCES"),
    ):
        both = "; ".join(getattr(ranges, name).text.removeprefix("from ") for name in names)
        assert f"| {both} |" in page
    for within in (MEGABYTES, MILLISECONDS):
        assert f"| at most {within.most:,} {within.unit} |" in page
    assert f"| {ranges.BYTES_PER_S.text.removeprefix('from ')} bytes per second |" in page
    assert f"| at most {MOST_ACTIONS:,} |" in page
    assert f"at most {MOST_BYTES // 2**20} MB, the values of a YAML file are at most {MOST_VALUES:,}" in page
    assert f"at most {DEEPEST} deep" in page
    assert f"at most {MOST_EVENT_BYTES // 2**20} MB" in page
