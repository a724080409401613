"""Versions of frameworks: each asked for gets the syntax of the newest known one up to it."""

import pytest

from evenflow.errors import InputError
from evenflow.targets.registry import target_named

TITAN = target_named("torchtitan")


@pytest.mark.parametrize(
    ("asked", "known"),
    [
        (None, "0.3.0"),
        ("0.2.2", "0.2.2"),
        ("0.2.9", "0.2.2"),
        ("0.3", "0.3.0"),
        ("0.2.10", "0.2.2"),
        ("0.3.0", "0.3.0"),
        ("0.4", "0.4.0"),
        ("9.20260101", "0.4.0"),
    ],
)
def test_a_version_has_the_syntax_of_the_newest_known_one_up_to_it(asked: str | None, known: str) -> None:
    assert TITAN.version(asked) == known


@pytest.mark.parametrize("asked", ["0.2.1", "", "new", "0", "0.3.0rc1", "-1", "9" * 5000, "1." + "9" * 10])
def test_anything_else_is_refused_with_those_that_are_known(asked: str) -> None:
    with pytest.raises(
        InputError, match=r"--version-of must be a version of torchtitan from 0\.2\.2 on.*0\.2\.2, 0\.3\.0, 0\.4\.0"
    ):
        TITAN.version(asked)
