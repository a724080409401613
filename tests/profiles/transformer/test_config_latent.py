"""Layers whose latent attention differs: without rotary positions, or with an earlier layer's keys and values."""

import pytest

from evenflow.errors import InputError
from evenflow.predict.activations import layer_activations
from evenflow.predict.layer_work import layer_passes
from evenflow.predict.training import Degrees, Training
from evenflow.predict.transformer import LatentAttention, LayerKind, Transformer
from evenflow.predict.work import Operators
from tests.profiles.transformer.small_configs import SMALL_CONFIGS
from tests.profiles.transformer.test_config_file import read

RANK, ROTARY, PLAIN, VALUES, HEADS, HIDDEN = 20, 6, 10, 14, 8, 64
TOKENS = 32


def model(**changes: object) -> Transformer:
    config = SMALL_CONFIGS["mistral_large4, shared keys"]
    text = config["text_config"]
    assert isinstance(text, dict)
    return read({**config, "text_config": {**text, **changes}}).model


def training(found: Transformer) -> Training:
    return Training(model=found, degrees=Degrees(), microbatch=1, global_batch=1, sequence=TOKENS)


def flops(found: Transformer, kind: LayerKind) -> float:
    works = layer_passes(training(found), kind).forward
    return sum(work.flops for work in works if isinstance(work, Operators))


def test_layers_without_positions_have_heads_as_wide_as_the_others() -> None:
    found = model()
    rotating = LatentAttention(query_rank=0, key_value_rank=RANK, rotary_dim=ROTARY, plain_dim=PLAIN, value_dim=VALUES)
    latents = [found.with_sizes_of(kind).latent for kind in found.kinds]
    assert [latent == rotating for latent in latents] == [True, False, True, True, False, True]
    assert {(one.rotary_dim, one.plain_dim) for one in latents if one} == {(ROTARY, PLAIN), (0, PLAIN + ROTARY)}
    every = model(no_rope_layers=None, kv_source_layers=None)
    assert [layer for layer in range(6) if every.with_sizes_of(every.kinds[layer]).latent != rotating] == [3]


def test_a_layer_with_the_keys_of_an_earlier_one_does_without_their_product() -> None:
    """What it reads goes from stage to stage: from the layer that has it until the last one that reads it."""
    found = model()
    own = [found.with_sizes_of(kind) for kind in found.kinds]
    assert [bool(sizes.key_products) for sizes in own] == [True, True, False, True, False, False]
    first, second, third = RANK + ROTARY, RANK, RANK + ROTARY
    assert [sizes.handed_on for sizes in own] == [first, first + second, second, second + third, third, 0]
    alone = model(kv_source_layers=None)
    reused, computed = found.kinds[2], alone.kinds[2]
    assert flops(alone, computed) - flops(found, reused) == 2 * TOKENS * HIDDEN * (RANK + ROTARY)
    kept = sum(layer_activations(training(alone), computed, kind="none").values())
    fewer = kept - sum(layer_activations(training(found), reused, kind="none").values())
    assert fewer == 2 * TOKENS * (2 * RANK + ROTARY - own[2].handed_on)  # what it hands on came with its input


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"kv_source_layers": [0, 1]}, "an entry for each of the 6 layers"),
        ({"kv_source_layers": [0, 1, 3, 3, 4, 5]}, "itself, or an earlier layer that has its own, got 3"),
        ({"kv_source_layers": [0, 0, 1, 3, 4, 5]}, "itself, or an earlier layer that has its own, got 1"),
        ({"kv_source_layers": [0, 1, -1, 3, 4, 5]}, "itself, or an earlier layer that has its own, got -1"),
        ({"no_rope_layers": [1, 0]}, "an entry for each of the 6 layers"),
    ],
)
def test_lists_that_fit_no_layers_are_refused(changes: dict[str, object], rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        model(**changes)
