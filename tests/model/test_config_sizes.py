"""Configurations with numbers that no model has are refused before a model is built."""

import pytest

from evenflow.errors import InputError
from evenflow.fields import Fields
from evenflow.model.config_sizes import check_config_sizes
from tests.fuzz.seeds import CONFIG


def check(**changes: object) -> None:
    check_config_sizes(Fields(values={**CONFIG, **changes}, file="c.json"))


def test_ordinary_sizes_pass() -> None:
    check()
    check(num_nextn_predict_layers=0, bos_token_id=-1, num_key_value_heads=None, rope_theta=1e6, n_routed_experts=256)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab_size": 0}, "c.json: vocab_size must be an integer from 1 to 100,000,000, got 0"),
        ({"num_hidden_layers": 10**8}, "c.json: num_hidden_layers must be an integer from 1 to 1,000, got 100000000"),
        ({"num_hidden_layers": 1e8}, "c.json: num_hidden_layers must be an integer from 1 to 1,000, got 100000000.0"),
        ({"hidden_size": "64"}, "c.json: hidden_size must be an integer from 1 to 100,000,000, got '64'"),
        ({"model_type": ["llama"]}, "c.json: model_type must be a text that is not empty"),
        ({"text_config": {"num_hidden_layers": 10**6}}, "c.json: text_config.num_hidden_layers must be an integer"),
        ({"mtp": {"num_mtp_layers": 5000}}, "c.json: mtp.num_mtp_layers must be an integer from 0 to 1,000"),
        ({"eos_token_id": 10**30}, "c.json: eos_token_id must be an integer from -1,000,000,000 to"),
    ],
)
def test_others_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as error:
        check(**changes)
    assert str(error.value).startswith(message)
