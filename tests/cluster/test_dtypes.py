"""Number formats under both of their names, against PyTorch."""

import pytest

from evenflow.cluster.dtypes import Dtype, parse_dtype
from evenflow.errors import InputError


def test_both_spellings_name_the_same_format() -> None:
    pairs = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "fp64": "float64"}
    assert {dtype.short_name: dtype.value for dtype in Dtype} == pairs
    for short, long in pairs.items():
        assert parse_dtype(short) is parse_dtype(long) is parse_dtype(long.upper())


def test_sizes_are_those_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    for dtype in Dtype:
        assert dtype.item_bytes == getattr(torch, dtype).itemsize


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"--dtype must be one of bf16, .*float64, got 'int8'"):
        parse_dtype("int8", place="--dtype")
