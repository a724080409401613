"""Laws of the parts of layers, over small configurations of every model type."""

from dataclasses import replace

import pytest

from evenflow.fields import as_fields
from evenflow.model import FULL
from evenflow.predict.activations import boundary_bytes, layer_activations, layer_working
from evenflow.predict.layer_parts import Addition, Indexer, NarrowEnds
from evenflow.predict.layer_work import layer_passes
from evenflow.predict.parameters import layer_parameters
from evenflow.predict.passes import with_sizes_of
from evenflow.predict.training import Degrees, Training
from evenflow.predict.transformer import DENSE, LatentAttention, LayerKind, Transformer
from evenflow.predict.work import Exchange, Operators, Spent, Work
from evenflow.profiles.transformer.config_file import transformer_of_config
from tests.profiles.transformer.small_configs import SMALL_CONFIGS

TOKENS = 64
PARTS = 2
"""Of a patch."""
LEAST = 0.85
"""Share of a small layer's numbers that are in products; the others are in norms, biases, tables and kernels."""


def training(model: Transformer) -> Training:
    return Training(model=model, degrees=Degrees(), microbatch=1, global_batch=1, sequence=TOKENS)


def operations(works: tuple[Work, ...]) -> float:
    return sum(one.flops for one in works if isinstance(one, Operators) and one.spent is Spent.PRODUCTS)


def read(name: str) -> Transformer:
    """The model, with as many tokens of images, or parts of patches, beside a sequence as that has, if it has any."""
    model = transformer_of_config(as_fields(SMALL_CONFIGS[name], file=name)).model
    if model.patches is not None:
        model = replace(model, patches=replace(model.patches, size=PARTS))
    return model if model.images is None else replace(model, images=replace(model.images, tokens=TOKENS))


def kinds(model: Transformer) -> list[LayerKind]:
    return list(dict.fromkeys(model.kind(layer) for layer in range(model.layers)))


@pytest.mark.parametrize("name", SMALL_CONFIGS)
def test_every_learned_product_is_done_once_forward_and_twice_backward(name: str) -> None:
    """Two operations for each number of a token's products: what is counted for memory is what is counted for time."""
    model = read(name)
    for kind in kinds(model):
        passes, learned = layer_passes(training(model), kind), layer_parameters(training(model), kind)
        experts = learned.expert * model.experts.computed / model.experts.count if model.experts else 0
        if model.experts and model.experts.image_ffn:  # no token here is of an image
            experts *= model.experts.ffn / (model.experts.ffn + model.experts.image_ffn)
        shared = sum(
            (parts - 1) * wide * narrow
            for addition in model.with_sizes_of(kind).additions_of(kind)
            for wide, narrow, parts in addition.repeated
        )
        once = operations(layer_passes(training(model), kind.own_pass).forward)
        behind_first = operations(layer_passes(training(model), replace(kind.own_pass, passes=2)).forward) - 2 * once
        of_kind = with_sizes_of(training(model), kind)
        forward = (once + behind_first) / (2 * of_kind.sequence) - shared
        crossing = of_kind.model.crossing
        if crossing is not None:  # a patch is projected once for all of its parts
            forward += (PARTS - 1) * crossing.projected * of_kind.model.hidden
        assert LEAST * (learned.dense + experts) <= forward <= (learned.dense + experts) * (1 + 1e-9)
        assert operations(passes.backward) == pytest.approx(2 * operations(passes.forward))


@pytest.mark.parametrize("name", SMALL_CONFIGS)
def test_recomputing_all_of_a_layer_keeps_less_and_works_with_the_rest(name: str) -> None:
    model = read(name)
    for kind in kinds(model):
        kept = sum(layer_activations(training(model), kind, kind="none").values())
        inputs = sum(layer_activations(training(model), kind, kind=FULL).values())
        if model.reversible:  # it keeps nothing but hashes, whatever is computed again
            assert inputs == kept
            continue
        of_kind = with_sizes_of(training(model), kind)
        own = of_kind.model
        embedding = own.carried if kind.shared else 0  # which a block that layers share reads too
        seen = own.images.width if kind.sees_images and own.images is not None else 0
        seen += own.hidden if own.crossing is not None and own.crossing.from_tokens else 0
        of_pass = own.streams * own.hidden + own.handed_on + embedding + seen
        assert inputs == 2 * of_kind.sequence * of_pass * kind.passes
        assert inputs < kept
        assert sum(layer_working(training(model), kind, kind=FULL).values()) >= 0
    most = max(model.with_sizes_of(kind).handed_on for kind in kinds(model))
    sent = model.streams * model.hidden + most + model.carried + (model.images.width if model.images else 0)
    sent += max(model.with_sizes_of(kind).patch_width for kind in kinds(model)) // PARTS
    assert boundary_bytes(training(model)) == 2 * TOKENS * sent


def test_a_gate_that_comes_with_the_queries_is_projected_from_twice_their_narrow_width() -> None:
    latent = LatentAttention(query_rank=28, key_value_rank=20, rotary_dim=6, plain_dim=10, value_dim=14)
    plain = Transformer(
        hidden=64, layers=2, heads=8, kv_heads=8, head_dim=16, ffn=112, vocabulary=203, gated=True, latent=latent
    )
    both = replace(plain, latent=replace(latent, gate_of_queries=True))
    learned, kept = (
        [of(training(model)) for model in (plain, both)]
        for of in (
            lambda of: layer_parameters(of, DENSE).dense,
            lambda of: sum(layer_activations(of, DENSE, kind="none").values()),
        )
    )
    assert learned[1] - learned[0] == 8 * 28 * (2 * (16 + 14) - 16)
    assert kept[1] - kept[0] == 2 * TOKENS * (28 + 2 * 8 * 14)


def test_an_addition_learns_its_products_and_the_rest_and_keeps_what_they_give() -> None:
    addition = Addition(name="gate", products=((8, 3), (3, 5)), numbers=7, small=2)
    assert (addition.learned, addition.kept) == (8 * 3 + 3 * 5 + 2, 3 + 5 + 7)
    repeated = replace(addition, repeated=((4, 9, 6),))
    assert (repeated.learned, repeated.kept) == (addition.learned + 4 * 9, addition.kept + 6 * 9)


def test_an_indexer_reads_the_narrow_queries_where_there_are_some() -> None:
    indexer = Indexer(heads=4, width=6, chosen=9, small=12)
    assert indexer.products(64, 28) == ((28, 24), (64, 6), (64, 4))
    assert indexer.products(64, 0)[0] == (64, 24)
    assert replace(indexer, from_hidden=True).products(64, 28)[0] == (64, 24)
    assert indexer.learned(64, 28) == 28 * 24 + 64 * 6 + 64 * 4 + 12


def test_experts_of_attention_are_shared_out_and_get_their_tokens_twice() -> None:
    """Queries go there and back, and so does what attention gives; those in the place of the MLP get tokens once."""
    model = read("jetmoe")
    alone, both = (replace(training(model), degrees=Degrees(data=size, expert=size)) for size in (1, 2))
    kind = model.kind(0)
    learned = [layer_parameters(of, kind) for of in (alone, both)]
    assert learned[1].expert == learned[0].expert / 2
    assert learned[0].expert == 6 * (2 * 64 * 4 * 24 + 3 * 64 * 112)
    sent = [work.size_bytes for work in layer_passes(both, kind).forward if isinstance(work, Exchange)]
    of_token = 2 * TOKENS * 2 * 2  # bytes of a number, for two experts, on a group of two devices
    assert sent == [of_token * numbers for numbers in (64, 4 * 24, 4 * 24, 64, 64, 64)]
    assert not any(isinstance(work, Exchange) for work in layer_passes(alone, kind).forward)


def test_narrow_ends_share_the_output_out_among_groups() -> None:
    ends = NarrowEnds(query_rank=10, out_rank=6, out_groups=4)
    assert ends.products(64, 192, 192) == ((64, 10, 1), (10, 192, 1), (48, 6, 4), (24, 64, 1))
