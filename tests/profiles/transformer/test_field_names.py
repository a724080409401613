"""Fields that nothing reads."""

from evenflow.fields import as_fields
from evenflow.profiles.transformer.field_names import unread_fields
from tests.profiles.transformer.small_configs import SMALL_CONFIGS
from tests.profiles.transformer.test_config_file import read


def test_numbers_lists_and_switches_that_nothing_reads_are_named() -> None:
    values = {"guest_expert_dim": 1280, "use_memory": True, "memory_layers": [1, 2], "width_scale": 0.5, "mode": "a"}
    fields = as_fields(values, file="c")
    assert unread_fields(fields, is_known=False) == ("guest_expert_dim", "use_memory", "memory_layers")
    unsaid = as_fields({"use_memory": False, "memory": None, "image_token_id": 9, "n": 1}, file="c")
    assert unread_fields(unsaid, is_known=False) == ()


def test_what_known_types_compute_with_and_do_not_consist_of_is_not_named() -> None:
    fields = as_fields({"qk_head_dim": 192, "freeze_layers": True, "guest_expert_dim": 1280}, file="c")
    assert unread_fields(fields, is_known=True) == ("guest_expert_dim",)
    assert unread_fields(fields, is_known=False) == ("qk_head_dim", "freeze_layers", "guest_expert_dim")


def test_an_unknown_type_says_what_is_left_out() -> None:
    values = {**SMALL_CONFIGS["llama"], "model_type": "new_one", "guest_expert_dim": 1280}
    values_left_out = ("left out are guest_expert_dim: check whether they add parts to layers",)
    assert read(values).notes[-1:] == values_left_out
    # A type may grow new parts too, under fields that are not read yet.
    assert read({**values, "model_type": "llama"}).notes == values_left_out
