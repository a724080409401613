"""The page shows what the example of a prediction prints."""

from scripts import make_prediction_example as made
from tests.paths import ROOT


def test_the_page_has_the_output_of_its_command() -> None:
    text = (ROOT / made.PAGE).read_text(encoding="utf-8")
    assert text == made.page(made.output()), "make prediction-example"
    before = text.partition(made.BEGIN)[0].replace(" \\\n    ", " ")
    assert made.COMMAND in before
