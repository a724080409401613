"""The page of models says what was found, and evenflow still reads the examples as it did then."""

import json
from dataclasses import replace

import pytest

from evenflow.fields import as_fields
from evenflow.predict.parameters import model_parameters
from evenflow.profiles.transformer.config_file import transformer_of_config
from scripts import make_architecture_page
from tests.paths import ROOT

RELEASED = make_architecture_page.counts()["released"]
EXAMPLES = {row["example"]: row for row in RELEASED.values() if "example" in row}


@pytest.mark.parametrize("path", make_architecture_page.PAGES, ids=lambda path: path.parent.name)
def test_the_pages_have_the_tables_of_the_data(path):
    assert path.read_text(encoding="utf-8") == make_architecture_page.page(path), "make architecture-table"


def test_every_example_is_a_released_model():
    assert {path.name for path in (ROOT / "examples" / "configs").glob("*.json")} == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_has_the_parameters_of_the_modules(name):
    config = json.loads((ROOT / "examples" / "configs" / name).read_text("utf-8"))
    model = transformer_of_config(as_fields(config, file=name)).model
    assert model_parameters(replace(model, predicted_tokens=0)) == EXAMPLES[name]["built"]
    assert config["model_type"] == EXAMPLES[name]["model_type"]


def test_all_released_models_are_read_to_the_digit_predicted_and_planned():
    for name, row in RELEASED.items():
        assert row["built"] == row["read"], name
        assert [row["predicted"], row["planned"]] == [True, True], name
    assert len({row["model_type"] for row in RELEASED.values()}) >= 30
