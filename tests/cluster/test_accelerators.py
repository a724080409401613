from dataclasses import replace

import pytest

from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.reached import Reached
from evenflow.errors import InputError

EASY = Accelerator(flops_per_s=1e12, memory_bytes_per_s=8e9, flops_per_s_of={"bfloat16": 4e12})


@pytest.mark.parametrize(
    ("flops", "moved_bytes", "dtype", "expected_ns"),
    [(7_000, 8, "float32", 7), (7_000, 80, "float32", 10), (8_000, 8, "bfloat16", 2), (0, 0, "float32", 0)],
)
def test_an_operator_takes_the_longer_of_arithmetic_and_traffic(
    flops: int, moved_bytes: int, dtype: str, expected_ns: int
) -> None:
    assert EASY.operator_ns(flops=flops, moved_bytes=moved_bytes, dtype=dtype) == expected_ns


def test_a_share_of_the_peak_slows_arithmetic_alone() -> None:
    half = EASY.reaching(0.5)
    assert (half.rate("bfloat16"), half.rate("int8"), half.memory_bytes_per_s) == (2e12, 5e11, 8e9)
    assert EASY.all_in("bfloat16").rate("float32") == 4e12


def test_fused_attention_reaches_its_share_of_what_products_reach() -> None:
    device = replace(EASY, reached=Reached(product_share=0.5, attention_share=0.25, operator_ns=0.0))
    product = device.time_ns(flops=1e6, moved_bytes=8)
    assert product == pytest.approx(1e6 / 500)
    assert device.time_ns(flops=1e6, moved_bytes=8, is_fused_attention=True) == pytest.approx(4 * product)


@pytest.mark.parametrize("efficiency", [0, 1.5, -1, float("nan")])
def test_efficiency_is_a_share(efficiency: float) -> None:
    with pytest.raises(InputError, match="efficiency must be a share above 0 and at most 1"):
        EASY.reaching(efficiency)


def test_rates_are_above_zero() -> None:
    with pytest.raises(InputError, match="accelerator, memory_bytes_per_s must be above zero"):
        Accelerator(flops_per_s=1.0, memory_bytes_per_s=0.0)
