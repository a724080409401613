"""Models of bytes and patches, from configurations: the row of their layers, and what is refused."""

from typing import Any

import pytest

from evenflow.errors import InputError
from tests.profiles.transformer.small_configs import SMALL_CONFIGS
from tests.profiles.transformer.test_config_file import counted, read

BLT: dict[str, Any] = SMALL_CONFIGS["blt"]


def test_the_row_has_layers_before_patches_on_them_and_behind_them() -> None:
    model = read(BLT).model
    own = [kind.own for kind in model.kinds]
    assert [bool(one and one.of_patches) for one in own] == [False] * 2 + [True] * 3 + [False] * 2
    assert [bool(one and one.crossing) for one in own] == [False, True] + [False] * 3 + [True] * 2
    assert [kind.window for kind in model.kinds] == [True] * 2 + [False] * 3 + [True] * 2
    decoder = {**BLT["decoder_config"], "cross_attn_all_layers": False}
    once = read({**BLT, "decoder_config": decoder}).model
    assert [bool(kind.own and kind.own.crossing) for kind in once.kinds] == [False, True] + [False] * 3 + [True, False]


def test_patches_as_wide_as_layers_need_no_product() -> None:
    """Without one, and with a window of all bytes where none is given."""
    wider = {**BLT, "cross_attn_k": 3}
    for key in ("encoder_config", "decoder_config"):
        wider[key] = {**BLT[key], "cross_attn_k": 3}
    # one more part: projected from bytes, from patches, and to the layers of patches, which it fitted before
    assert counted(read(wider).model) - counted(read(BLT).model) == 48 * 48 + 96 * 48 + 144 * 96
    assert read({**BLT, "local_attention_window_len": None}).model.window == 512  # as the type has it


def test_no_model_chooses_patches_that_data_has() -> None:
    patches = read({**BLT, "patch_in_forward": False}).model.patches
    assert patches is not None
    assert patches.chooser is None
    assert patches.size == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"encoder_config": {**BLT["encoder_config"], "hidden_size": 64}},
            "encoder_config.hidden_size must be 48, as ",
        ),
        ({"cross_attn_k": 4}, "encoder_config.cross_attn_k must be 4, as cross_attn_k"),
        ({"decoder_config": {**BLT["decoder_config"], "hidden_size_global": 80}}, "hidden_size_global must be 96, as "),
        ({"vocab_size": 300}, "encoder_config.vocab_size must be 300, as vocab_size"),
        ({"encoder_config": {**BLT["encoder_config"], "cross_attn_all_layers": True}}, "must be false"),
        ({"encoder_config": [1]}, "encoder_config must be"),
        ({"patching_mode": "space"}, 'patching_mode must be "entropy"'),
        ({"patch_size": 0}, "patch_size must be"),
    ],
)
def test_what_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as refused:
        read({**BLT, **changes})
    assert message in str(refused.value)
