"""Configurations with layers that tokens go through several times."""

import pytest

from evenflow.errors import InputError
from evenflow.predict.layer_parts import Loop
from tests.profiles.transformer.small_configs import SMALL_CONFIGS
from tests.profiles.transformer.test_config_file import read

DORY, HRM, INKLING = (SMALL_CONFIGS[name] for name in ("dory", "hrm_text", "inkling2_loop_text"))


def test_layers_between_those_of_input_and_output() -> None:
    found = read(DORY)
    assert found.model.loops == (Loop(first=2, end=6, passes=2),)
    assert found.notes == ("tokens go through the layers 2 to 5, counted from 0, 2 times; they stay in one stage",)
    assert read({**DORY, "n_recurrent_loops": 1}).model.loops == ()
    assert read({**DORY, "n_recurrent_layers": 4}).model == found.model


def test_attention_and_mlp_that_are_listed_apart_are_one_layer() -> None:
    """As released files and those that transformers writes have them."""
    plain = {**DORY, "layer_types": (["sliding_attention"] * 3 + ["full_attention"]) * 2}
    apart = {
        **DORY, "num_hidden_layers": 14, "n_input_layers": 4, "n_output_layers": 2, "n_recurrent_layers": 8,
        "layer_types": [word for kind in plain["layer_types"][:7] for word in (kind, "mlp")],
    }  # fmt: skip
    assert read(apart).model == read({**plain, "layer_types": plain["layer_types"][:7]}).model


@pytest.mark.parametrize(
    ("fields", "kept", "unkept"),
    [
        ({}, 4, 5),  # 1, 1 and 2 of three passes in each of three turns
        ({"L_bp_cycles": [3]}, 5, 4),
        ({"L_bp_cycles": [1, 2, 3]}, 6, 3),
        ({"L_bp_cycles": [9, 9, 9]}, 9, 0),
        ({"H_cycles": 1, "L_cycles": 1}, 1, 0),
    ],
)
def test_passes_through_the_lower_stack_of_which_some_have_no_gradients(
    fields: dict[str, object], kept: int, unkept: int
) -> None:
    found = read({**HRM, **fields})
    outer = fields.get("H_cycles", 3)
    loops = (Loop(first=0, end=3, passes=kept, unkept=unkept), Loop(first=3, end=6, passes=outer, inner=True))
    assert found.model.loops == tuple(loop for loop in loops if loop.passes + loop.unkept > 1)
    if unkept:
        assert f"3 to 5, counted from 0, {outer} times; they stay in one stage" in found.notes[1]
        assert f"of which {kept} have gradients" in found.notes[0]


def test_the_number_of_layers_that_a_file_states_for_caches_is_not_that_of_its_layers() -> None:
    assert read({**HRM, "num_hidden_layers": 36, "num_layers_per_stack": 3}).model == read(HRM).model


def test_layers_of_a_core_get_messages_in_passes_behind_the_first() -> None:
    model = read(INKLING).model
    assert model.loops == (Loop(first=2, end=6, passes=3),)
    messages = [[part for part in model.with_sizes_of(kind).additions if part.after_first] for kind in model.kinds]
    assert [len(parts) for parts in messages] == [0, 0, 1, 1, 1, 1, 0]
    (part,) = messages[2]
    assert part.learned == 4 * (2 * 64 * 9 + 2 * 9 * 64) + 4 * 64
    in_object = {**INKLING, "loop_config": {"core_start": 2, "core_end": 4, "num_passes": 2, "gate_rank": 9}}
    assert read(in_object).model.loops == (Loop(first=2, end=4, passes=2),)


@pytest.mark.parametrize(
    ("config", "changes", "message"),
    [
        (DORY, {"n_recurrent_layers": 5}, "n_recurrent_layers must be the 7 layers together with those of input and"),
        (DORY, {"n_input_layers": 7}, "n_recurrent_layers must be the 7 layers together with those of input and"),
        (DORY, {"n_recurrent_loops": 0}, "n_recurrent_loops must be an integer from 1"),
        (HRM, {"L_bp_cycles": [0]}, "L_bp_cycles must be integers of at least 1"),
        (INKLING, {"loop_layer_index_end": 9}, "loop_layer_index_end must be at least 2, where the loop begins, and"),
    ],
)
def test_what_is_refused(config: dict[str, object], changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=f"config.json: {message}"):
        read({**config, **changes})
