"""What software keeps for the backward beside the usual: losses, every second product, inputs in 8 bits."""

from dataclasses import replace

import pytest

from evenflow.predict.activations import layer_activations, layer_working, tail_working
from evenflow.predict.held import Held, total
from evenflow.predict.parameters import padded_vocabulary
from evenflow.predict.stated_software import stated_software
from evenflow.predict.training import PRODUCTS, Degrees, Software
from tests.predict.trainings import LLAMA, training

KIND = LLAMA.kinds[0]
ONE = training(degrees=Degrees())
LOGITS = ONE.sequence * padded_vocabulary(ONE)


def software(words: str) -> Software:
    return stated_software(words, place="words").applied(Software())


@pytest.mark.parametrize(
    ("words", "item"), [("fused-loss", 6), ("unfused-loss", 12), ("compiled-loss", 4), ("liger-loss", 6)]
)
def test_bytes_of_a_logit(words: str, item: int) -> None:
    assert tail_working(replace(ONE, software=software(words)))[Held.LOGITS] == item * LOGITS


def test_gathered_logits_are_whole_on_every_device() -> None:
    two = training(degrees=Degrees(tensor=2))
    split, whole = (
        tail_working(replace(two, software=software(words))) for words in ("split-logits", "no-loss-parallel")
    )
    assert whole[Held.LOGITS] == 2 * split[Held.LOGITS]


def test_inputs_of_activation_functions_in_8_bits_take_half() -> None:
    usual, narrow = (replace(ONE, software=software(words)) for words in ("bf16-saved-inputs", "fp8-saved-inputs"))
    less = total(layer_activations(usual, KIND, kind="none")) - total(layer_activations(narrow, KIND, kind="none"))
    assert less == 2 * ONE.sequence * LLAMA.ffn
    assert layer_working(usual, KIND, kind="none") == layer_working(narrow, KIND, kind="none"), "gradients are in 16"


def test_every_second_product_keeps_what_torchtitan_keeps() -> None:
    """Input, queries, values, attention's output with its sums, the first product of the MLP, and the last one."""
    kept = replace(ONE, recompute="select", recompute_modules=(PRODUCTS,), software=software("eager"))
    width, values = LLAMA.heads * LLAMA.head_dim, LLAMA.kv_heads * LLAMA.head_dim
    items = 2 * (LLAMA.hidden + width + values + width + LLAMA.ffn) + 4 * LLAMA.heads
    found = total(layer_activations(kept, KIND, kind="select"))
    assert found == ONE.sequence * (items + 2 * LLAMA.hidden)
    compiled = replace(kept, software=software("torch.compile"))
    assert total(layer_activations(compiled, KIND, kind="select")) == ONE.sequence * items, "nobody reads the last"
