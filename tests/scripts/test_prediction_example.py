"""The pages show what the example of a prediction prints."""

import pytest

from scripts import make_prediction_example as made
from tests.paths import ROOT


@pytest.mark.parametrize(("name", "language"), made.PAGES.items())
def test_the_page_has_the_output_of_its_command(name, language):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert text == made.page(name, made.output(language)), "make prediction-example"
    before = text.partition(made.BEGIN)[0].replace(" \\\n    ", " ")
    assert made.COMMAND in before
