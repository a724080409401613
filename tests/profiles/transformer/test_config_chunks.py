"""Attention in chunks, from configurations: which layers have which, and what is refused."""

import pytest

from evenflow.errors import InputError
from evenflow.predict.layer_parts import ChunkedAttention
from tests.profiles.transformer.small_configs import SMALL_CONFIGS
from tests.profiles.transformer.test_config_file import read

REFORMER = SMALL_CONFIGS["reformer"]


def test_layers_are_those_that_are_listed() -> None:
    sizes = {"lsh_attn_chunk_length": 32, "local_num_chunks_before": 2, "num_hashes": 4, "num_buckets": [8, 16]}
    model = read({**REFORMER, **sizes}).model
    hashed = ChunkedAttention(length=32, around=1, hashes=4, buckets=(8, 16), longest=4096)
    local = ChunkedAttention(length=64, around=2)
    assert [kind.own.chunked for kind in model.kinds if kind.own] == [hashed, local, hashed]
    assert read({**REFORMER, "attn_layers": ["local"] * 5}).model.layers == 5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attn_layers": ["lsh", "full"]}, "attn_layers must be one of local, lsh"),
        ({"attn_layers": "lsh"}, "attn_layers must be"),
        ({"num_buckets": 7}, "num_buckets must be an even number, or a list of even factors"),
        ({"num_buckets": [8, 0]}, "num_buckets must be an even number, or a list of even factors"),
        ({"num_hashes": 0}, "num_hashes must be"),
        ({"is_decoder": False}, "is_decoder must be true"),
        ({"axial_pos_shape": "4 x 8"}, "axial_pos_shape must be a list of integers"),
        ({"axial_pos_shape": [4, 8, 2]}, "axial_pos_shape must have as many numbers as axial_pos_embds_dim (2)"),
    ],
)
def test_what_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as refused:
        read({**REFORMER, **changes})
    assert message in str(refused.value)
