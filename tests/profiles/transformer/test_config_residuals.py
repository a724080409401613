"""Residuals that attend to every block of layers before them: what a layer reads, and what it sends on."""

import pytest

from evenflow.predict.transformer import Transformer
from tests.profiles.transformer.small_configs import SMALL_CONFIGS
from tests.profiles.transformer.test_config_file import read

HIDDEN, LAYERS = 64, 7


def model(**changes: object) -> Transformer:
    return read({**SMALL_CONFIGS["inkling2_text"], **changes}).model


@pytest.mark.parametrize("every", [1, 2, 3, 6, 7, 9])
def test_a_layer_hands_on_the_blocks_so_far_beside_its_own_sum(every: int) -> None:
    """Blocks begin with layers 0, `every`, …, each of which adds the sum of the one before."""
    found = model(n_layers_per_attn_res_block=every)
    blocks, states = [], 0
    for layer in range(LAYERS):
        states += layer % every == 0
        blocks.append(states)
    sent = [found.with_sizes_of(kind).message_width for kind in found.kinds]
    assert sent == [(1 + states) * HIDDEN for states in blocks]
    assert found.message_width == HIDDEN  # behind the embedding
    assert max(sent) == (1 + -(-LAYERS // every)) * HIDDEN  # as Kimi K3 sends from every stage, filled up


def test_a_layer_reads_what_earlier_blocks_gave_and_what_its_own_has_so_far() -> None:
    found = model(n_layers_per_attn_res_block=3)
    parts = [
        next(part for part in found.with_sizes_of(kind).additions if part.name == "attention residuals")
        for kind in found.kinds
    ]
    of_attention, of_mlp = [0, 2, 2, 2, 3, 3, 3], [2, 2, 2, 3, 3, 3, 4]
    assert [part.numbers for part in parts] == [
        2 * HIDDEN * (one + other) for one, other in zip(of_attention, of_mlp, strict=True)
    ]
    assert [part.small // HIDDEN for part in parts] == [1, 2, 4, 2, 2, 4, 2]  # three of layers that see all tokens
    assert found.tail_additions[-1].numbers == 2 * HIDDEN * 4


def test_residuals_with_norms_learn_two_vectors_each() -> None:
    """Those of Kimi K3, where the first layer's attention has one too, though it reads the embedding alone."""
    found = read({**SMALL_CONFIGS["kimi_linear"], "attn_res_block_size": 3}).model
    parts = [
        next(part for part in found.with_sizes_of(kind).additions if part.name == "attention residuals")
        for kind in found.kinds
    ]
    assert {part.small // found.hidden for part in parts} == {4}
    assert parts[0].numbers == 2 * found.hidden * 2
    assert found.tail_additions[-1].small == 2 * found.hidden


def test_the_output_layer_has_no_rows_that_fill_up_the_embedding() -> None:
    words = {part.name: part.small for part in model().tail_additions}
    assert words["output"] == (199 - 203) * HIDDEN
    assert "output" not in {part.name for part in model(unpadded_vocab_size=None).tail_additions}
