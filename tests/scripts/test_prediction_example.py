"""The pages show what the example of a prediction prints."""

import pytest

from scripts import make_prediction_example as made
from tests.paths import ROOT


@pytest.fixture(scope="module")
def printed() -> str:
    return made.output()


@pytest.mark.parametrize("name", made.PAGES)
def test_the_page_has_the_output_of_its_command(name, printed):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert text == made.page(name, printed), "make prediction-example"
    before = text.partition(made.BEGIN)[0].replace(" \\\n    ", " ")
    assert made.COMMAND in before
