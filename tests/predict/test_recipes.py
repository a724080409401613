"""Recipes of scaling: what published comparisons say of their order, and that wide formats know none."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.predict.prediction import predict
from evenflow.predict.recipes import OF_FORMATS, RECIPES
from evenflow.predict.training import Degrees, Software
from tests.predict.test_prediction import NODES, training, transformer

LARGE = transformer(hidden=4096, ffn=16384, heads=32, kv_heads=32, head_dim=128)


def step_ns(precision: str, recipe: str, tensor: int = 1) -> float:
    one = replace(training(Degrees(tensor=tensor), model=LARGE, recipe=recipe), precision=precision, sequence=8192)
    return predict(one, NODES).step_ns


@pytest.mark.parametrize("tensor", [1, 4])
def test_delayed_is_fastest_and_rowwise_slowest(tensor: int) -> None:
    """As on an H200, and as torchtitan measured on H100. [Transformer Engine, speedups.rst at 03b5742]"""
    delayed, tensorwise, rowwise = (step_ns("fp8", name, tensor) for name in ("delayed", "tensorwise", "rowwise"))
    assert delayed < tensorwise < rowwise
    assert delayed < step_ns("fp8", "blockwise", tensor) < rowwise


@given(st.sampled_from(["bf16", "fp16", "fp32"]), st.sampled_from(sorted(RECIPES)))
def test_wide_formats_scale_nothing(precision: str, recipe: str) -> None:
    assert step_ns(precision, recipe) == step_ns(precision, "")


@pytest.mark.parametrize("precision", sorted(OF_FORMATS))
def test_the_usual_recipe_is_taken_where_none_is_named(precision: str) -> None:
    assert step_ns(precision, "") == step_ns(precision, OF_FORMATS[precision][0])


def test_what_rowwise_products_gather_is_wide() -> None:
    one = replace(training(Degrees(tensor=8)), precision="fp8")
    narrow, wide = (
        sum(part.exposed_ns for part in predict(replace(one, software=Software(recipe=name)), NODES).parts
            if part.name.startswith("tensor"))
        for name in ("tensorwise", "rowwise")
    )  # fmt: skip
    assert narrow < wide < 2 * narrow
