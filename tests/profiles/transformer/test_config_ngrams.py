"""Embeddings of n-grams: which layers have them, how many rows their tables have, and how they are shared out."""

from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.predict.layer_work import layer_passes
from evenflow.predict.parameters import layer_parameters
from evenflow.predict.training import Degrees, Training
from evenflow.predict.transformer import Transformer
from evenflow.predict.work import Exchange
from evenflow.profiles.transformer.config_ngrams import primes_from
from tests.profiles.transformer.small_configs import SMALL_CONFIGS
from tests.profiles.transformer.test_config_file import read


def model(**changes: object) -> Transformer:
    return read({**SMALL_CONFIGS["qwen4_exp_text, n-grams"], **changes}).model


def training(of: Transformer, *, tensor: int = 1) -> Training:
    return Training(model=of, degrees=Degrees(tensor=tensor), microbatch=1, global_batch=1, sequence=64)


@given(st.integers(1, 5_000), st.integers(0, 60))
def test_primes_are_those_that_no_smaller_number_divides(first: int, count: int) -> None:
    found = list(islice(primes_from(first), count))
    last = found[-1] if found else first - 1
    every = range(max(first, 2), last + 1)
    assert found == [number for number in every if all(number % divisor for divisor in range(2, number))]


def test_every_table_has_another_prime_as_its_rows_filled_up_together() -> None:
    """Two layers with eight heads: the first sixteen primes from 100 on."""
    first, second = ((sum(primes) + 15) // 16 * 16 for primes in (_PRIMES[:8], _PRIMES[8:]))
    tables = [
        [part.table for part in (own.additions or ())] if own else []
        for own in model().own
    ]  # fmt: skip
    assert tables == [[0, first * 3], [0, second * 3], [], []]


_PRIMES = (101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167, 173, 179)


def test_layers_without_n_grams_are_alike() -> None:
    plain = read(SMALL_CONFIGS["qwen4_exp_text"]).model
    assert plain.own == ()
    assert replace(model(), own=()) == plain


def test_tensor_parallelism_shares_out_the_tables_and_sums_what_is_looked_up() -> None:
    of = model()
    kind = of.kind(0)
    with_table, without = (layer_parameters(training(of, tensor=tensor), kind).dense for tensor in (1, 2))
    table = of.with_sizes_of(kind).additions[-1].table
    assert with_table - without > table / 2
    sums = [
        work.size_bytes
        for work in layer_passes(training(of, tensor=2), kind).forward
        if isinstance(work, Exchange) and work.module == "n-grams"
    ]
    assert sums == [2 * 64 * 24]
    assert not any(work.module == "n-grams" for work in layer_passes(training(of), of.kind(2)).forward)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ple_layer_ids": [0]}, "ple_layer_ids must be numbers of layers, from 1 to 4"),
        ({"ple_layer_ids": [5]}, "ple_layer_ids must be numbers of layers, from 1 to 4"),
        ({"ple_embed_dim": 20}, "ple_embed_dim must be a multiple of the 8 heads of all n-grams, got 20"),
        ({"ngram_size": 1}, "ngram_size must be an integer from 2 to 8, got 1"),
        ({"heads_per_ngram": 65}, "heads_per_ngram must be an integer from 1 to 64, got 65"),
        ({"indexer_head_dim": None}, "must have the field 'index_head_dim'"),
    ],
)
def test_what_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        model(**changes)
