"""Fields that nothing reads."""

from evenflow.fields import as_fields
from evenflow.profiles.transformer.field_names import unread_fields
from tests.profiles.transformer.small_configs import SMALL_CONFIGS
from tests.profiles.transformer.test_config_file import read


def test_numbers_lists_and_switches_that_nothing_reads_are_named() -> None:
    values = {"guest_expert_dim": 1280, "use_memory": True, "memory_layers": [1, 2], "width_scale": 0.5, "mode": "a"}
    assert unread_fields(as_fields(values, file="c")) == ("guest_expert_dim", "use_memory", "memory_layers")
    assert unread_fields(as_fields({"use_memory": False, "memory": None, "image_token_id": 9, "n": 1}, file="c")) == ()


def test_an_unknown_type_says_what_is_left_out() -> None:
    values = {**SMALL_CONFIGS["llama"], "model_type": "new_one", "guest_expert_dim": 1280}
    assert read(values).notes[-1] == "left out are guest_expert_dim: check whether they add parts to layers"
    assert read({**values, "model_type": "llama"}).notes == ()
