"""Configurations whose layers share blocks of attention and MLP."""

import pytest

from evenflow.errors import InputError
from tests.profiles.transformer.small_configs import SMALL_CONFIGS
from tests.profiles.transformer.test_config_file import counted, read

ZAMBA, ZAMBA2 = SMALL_CONFIGS["zamba"], SMALL_CONFIGS["zamba2"]


def test_layers_that_begin_with_a_block_are_those_that_the_file_lists() -> None:
    model = read(ZAMBA2).model
    assert model.shared is not None
    assert (model.layers, model.shared.layers, model.shared.count) == (7, (1, 3, 4), 2)
    assert not any(kind.attention or kind.mlp for kind in model.kinds)
    assert model.shared.block.attention_width == 2 * model.hidden
    assert model.message_width == 2 * model.hidden  # the embedding goes along to all layers


def test_a_file_that_lists_none_has_them_by_its_period() -> None:
    """The third layer, and behind it every third one from the second on."""
    model = read(ZAMBA).model
    assert model.shared is not None
    assert model.shared.layers == (2, 4, 7)


def test_no_more_blocks_than_layers_that_begin_with_one() -> None:
    model = read({**ZAMBA2, "num_mem_blocks": 9}).model
    assert model.shared is not None
    assert model.shared.count == 3
    without = read({**ZAMBA2, "layers_block_type": ["mamba"] * 7})
    assert without.model.shared is None
    assert not without.notes


def test_a_further_use_costs_what_is_its_own() -> None:
    """A product of 64 x 64, and narrow ones of rank 5 beside those of queries, keys, values and the MLP."""
    kinds = ["mamba"] * 7
    sizes = [
        counted(read({**ZAMBA2, "layers_block_type": [*["hybrid"] * uses, *kinds[uses:]]}).model) for uses in (2, 3)
    ]
    assert sizes[1] - sizes[0] == 64 * 64 + 3 * 5 * (128 + 128) + 5 * (64 + 2 * 112)


def test_notes_say_who_holds_the_blocks() -> None:
    (of_one,) = read(ZAMBA).notes
    assert of_one.startswith("3 layers share 1 block of attention and MLP: every rank of a pipeline holds it")
    (of_two,) = read(ZAMBA2).notes
    assert of_two.startswith("3 layers share 2 blocks of attention and MLP: every rank of a pipeline holds them")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"attention_hidden_size": 100},
            "attention_hidden_size must be twice the hidden size (128): attention reads the embedding too, got 100",
        ),
        (
            {"tie_word_embeddings": False},
            "tie_word_embeddings must be true: models of this type are not read with another one, got False",
        ),
        ({"num_mem_blocks": 0}, "num_mem_blocks must be an integer of at least 1, got 0"),
    ],
)
def test_what_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as refused:
        read({**ZAMBA2, **changes})
    assert str(refused.value) == f"config.json: {message}"
