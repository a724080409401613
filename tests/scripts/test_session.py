"""The recorded session from an installation to a plan shows what its commands print."""

import re

import pytest

from scripts import make_session as made


@pytest.mark.processes
def test_the_recorded_session_is_what_happens() -> None:
    shown, again = (re.sub(r"solved with [0-9.]+ s", "", text) for text in (recorded(), made.picture(made.session())))
    assert shown == again, "make session"


def recorded() -> str:
    return made.PICTURE.read_text(encoding="utf-8")
