"""Configurations with layers that see images beside the sequence."""

import pytest

from evenflow.errors import InputError
from evenflow.predict.layer_parts import ImageAttention
from evenflow.predict.transformer import Modality
from evenflow.profiles.transformer.config_images import ImageEncoder
from tests.profiles.transformer.small_configs import SMALL_CONFIGS
from tests.profiles.transformer.test_config_file import read

MLLAMA, IDEFICS = SMALL_CONFIGS["mllama"]["text_config"], SMALL_CONFIGS["idefics"]
assert isinstance(MLLAMA, dict)
VISION = {"image_size": 56, "patch_size": 14, "hidden_size": 48, "attention_heads": 4, "vision_output_dim": 96}


def test_layers_that_the_file_lists_are_among_its_layers() -> None:
    model = read(MLLAMA).model
    assert (model.layers, model.images) == (4, ImageAttention(layers=(1, 3), width=64))
    assert [kind.sees_images for kind in model.kinds] == [False, True, False, True]
    norms = [model.with_sizes_of(kind).norms for kind in model.kinds]
    assert [(each.queries, each.keys) for each in norms] == [(0, 0), (8, 8)] * 2
    assert read({**MLLAMA, "cross_attention_layers": [1, 9]}).model.images == ImageAttention(layers=(1,), width=64)
    assert read({**MLLAMA, "cross_attention_layers": []}).model.images is None


def test_layers_between_those_that_the_file_counts_are_layers_too() -> None:
    """Five layers, and one that sees images before the first and the third."""
    model = read(IDEFICS).model
    assert (model.layers, model.images) == (7, ImageAttention(layers=(0, 3), width=40))
    assert read({**IDEFICS, "cross_layer_interval": 1}).model.layers == 10


def test_what_the_file_freezes_is_said() -> None:
    (note,) = read({**IDEFICS, "freeze_text_layers": True, "freeze_lm_head": False}).notes
    assert note.startswith("parts that the file freezes are taken to be trained (freeze_text_layers); --freeze N says")


def test_tiles_of_an_image_become_tokens_beside_the_sequence() -> None:
    """Two tiles of 4 x 4 patches and one of their class each, filled up to 24 patches."""
    config = {"model_type": "mllama", "text_config": MLLAMA, "vision_config": {**VISION, "max_num_tiles": 2}}
    encoder = read(config).encoders[Modality.IMAGE]
    assert isinstance(encoder, ImageEncoder)
    assert (encoder.is_fixed, encoder.image_side) == (True, 56)
    tower = encoder.of_images(3, side=56)
    assert (tower.is_beside, tower.tokens, tower.further) == (True, 3 * 2 * 17, 2 * 7)


def test_what_a_resampler_makes_of_images_is_not_read() -> None:
    vision = {"embed_dim": 40, "num_attention_heads": 4}
    found = read({**IDEFICS, "vision_config": vision}).encoders[Modality.IMAGE]
    assert isinstance(found, ImageEncoder)
    refused = read({**IDEFICS, "vision_config": vision, "use_resampler": True}).encoders[Modality.IMAGE]
    assert isinstance(refused, InputError)
    assert "use_resampler must be false" in str(refused)


@pytest.mark.parametrize(
    ("config", "changes", "message"),
    [
        (MLLAMA, {"cross_attention_layers": 3}, "cross_attention_layers must be a list of integers, got 3"),
        (IDEFICS, {"cross_layer_interval": 0}, "cross_layer_interval must be an integer of at least 1, got 0"),
        (IDEFICS, {"alpha_type": "none"}, 'alpha_type must be "float" or "vector": models of this type'),
    ],
)
def test_what_is_refused(config: dict[str, object], changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=f"config.json: {message}"):
        read({**config, **changes})
