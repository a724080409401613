from dataclasses import replace

import pytest

from evenflow.cluster.accelerators import Accelerator
from evenflow.errors import InputError
from tests.cluster.accelerators import plain_accelerator

EASY = plain_accelerator(flops_per_s=1e12, memory_bytes_per_s=8e9, flops_per_s_of={"bfloat16": 4e12, "float8": 8e12})


@pytest.mark.parametrize(
    ("flops", "moved_bytes", "dtype", "expected_ns"),
    [(7_000, 8, "float32", 7), (7_000, 80, "float32", 10), (8_000, 8, "bfloat16", 2), (0, 0, "float32", 0)],
)
def test_an_operator_takes_the_longer_of_arithmetic_and_traffic(
    flops: int, moved_bytes: int, dtype: str, expected_ns: int
) -> None:
    assert EASY.time_ns(flops=flops, moved_bytes=moved_bytes, dtype=dtype) == expected_ns


def reaching(**parameters: float) -> Accelerator:
    return replace(EASY, reached=replace(EASY.reached, **parameters))


def test_a_share_of_the_peak_slows_arithmetic_alone() -> None:
    half = EASY.reaching(0.5)
    assert half.time_ns(flops=8_000, moved_bytes=8, dtype="bfloat16") == 4
    assert half.time_ns(flops=8_000, moved_bytes=8, dtype="int8") == 16
    assert half.time_ns(flops=8_000, moved_bytes=800) == 100
    assert EASY.reaching(None) is EASY


def test_a_share_of_the_bandwidth_slows_traffic_alone() -> None:
    half = reaching(memory_share=0.5)
    assert [half.time_ns(flops=7_000, moved_bytes=size) for size in (8, 80)] == [7, 20]


def test_products_of_few_bits_reach_less_of_their_peak() -> None:
    device = reaching(low_precision_share=0.5)
    assert [device.time_ns(flops=8_000, moved_bytes=8, dtype=one) for one in ("bfloat16", "float8")] == [2, 2]


def test_short_sums_are_slow() -> None:
    device = reaching(ramp_depth=64.0)
    assert [device.time_ns(flops=1_000, moved_bytes=0, depth=depth) for depth in (0, 16, 64)] == [1, 5, 2]


def test_no_operator_is_faster_than_its_launch() -> None:
    device = reaching(operator_ns=5.0)
    assert [device.time_ns(flops=7_000, moved_bytes=8, calls=calls) for calls in (0, 1, 2)] == [7, 7, 10]
    assert device.time_ns(flops=0, moved_bytes=0, calls=0) == 0


def test_what_times_follow_from_is_told() -> None:
    told = reaching(product_share=0.5, attention_share=0.8, operator_ns=40_000.0).origin(["bfloat16", "float32"])
    assert told == (
        "times follow from operations and bytes at the rates of accelerator: 50 % of 4 TFLOPS bfloat16, 1 TFLOPS "
        "float32 in large matrix products, 40 % in fused attention; 100 % of 8 GB/s; at least 40 µs an operator "
        "(accelerator)"
    )


def test_fused_attention_reaches_its_share_of_what_products_reach() -> None:
    device = reaching(product_share=0.5, attention_share=0.25)
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
