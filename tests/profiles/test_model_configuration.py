"""A configuration is told from a layer file and a plan file, and is never an unknown field of these."""

import json

import pytest

from evenflow.errors import InputError
from evenflow.fields import Fields
from evenflow.profiles.layer_file import parse_layer_file
from evenflow.profiles.model_configuration import is_configuration
from evenflow.profiles.plan_file import parse_plan, parse_plan_file
from tests.paths import ROOT


@pytest.mark.parametrize("parse", [parse_layer_file, parse_plan, parse_plan_file])
@pytest.mark.parametrize("config", [{"architectures": ["LlamaForCausalLM"]}, {"model_type": "llama", "layers": 3}])
def test_a_configuration_is_named_as_what_it_is(parse, config):
    with pytest.raises(InputError, match=r"config\.json must be a layer file or a plan file, not the configuration"):
        parse(json.dumps(config), place="config.json")


def test_every_example_is_what_its_folder_says():
    for file in (ROOT / "examples").rglob("*.json"):
        values = json.loads(file.read_text())
        assert is_configuration(Fields(values=values, file=str(file))) == (file.parent.name == "configs"), file
