"""Text with units becomes integers once; everything else is refused in one form."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.ranges import BYTES_PER_S, FLOPS, MEMORY_BYTES
from evenflow.units import (
    bytes_from_megabytes,
    format_bandwidth,
    format_flops,
    format_memory,
    megabytes,
    milliseconds,
    nanoseconds_from_milliseconds,
    parse_bandwidth,
    parse_flops,
    parse_memory,
    parse_time,
)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_memory, "56GB", 56 * 2**30),
        (parse_memory, "57344", 56 * 2**30),
        (parse_memory, " 1.5 kib ", 1536),
        (parse_memory, ".5MB", 2**19),
        (parse_memory, "3b", 3),
        (parse_time, "5us", 5000),
        (parse_time, "0.02ms", 20_000),
        (parse_time, "0s", 0),
        (parse_time, "3µs", 3000),
        (parse_bandwidth, "25GBps", 25 * 10**9),
        (parse_bandwidth, "200Gb/s", 25 * 10**9),
        (parse_bandwidth, "1kBps", 1000),
        (parse_flops, "312TFLOPS", 312e12),
        (parse_flops, "1.5 pflop/s", 1.5e15),
    ],
)
def test_values(parse, text, value):
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (parse_memory, "lots", "memory must be a number with one of the units B, KB, MB, GB, TB (none: MB), got 'lot"),
        (parse_memory, "1e3", "memory must be a number with"),
        (parse_memory, "-1GB", "memory must be a number with"),
        (parse_memory, "0GB", "memory must be above zero, at most 100,000,000 MB, and a byte or more, got '0GB'"),
        (parse_time, "5", "time must be a number with one of the units ns, us, ms, s, got '5'; write for example 5us"),
        (parse_bandwidth, "25GB", "bandwidth must be a number with K, M, G or T and bytes or bits per second"),
        (parse_bandwidth, "0GBps", "bandwidth must be from 1 to 1,000,000,000,000,000 bytes per second, got '0GBps'"),
        (parse_flops, "0TFLOPS", "peak must be a number of floating-point operations per second"),
        (parse_flops, "312T", "peak must be a number of floating-point operations per second"),
        (parse_memory, "0.1B", "memory must be above zero, at most 100,000,000 MB, and a byte or more, got '0.1B'"),
        (parse_memory, "96TB", "memory must be above zero, at most 100,000,000 MB"),
        (parse_memory, "9" * 400, "memory must be above zero, at most 100,000,000 MB, and a byte or more, got '999"),
        (parse_time, "100001s", "time must be from 0 to 100,000,000 ms, got '100001s'"),
        (parse_time, "9" * 400 + "s", "time must be from 0 to 100,000,000 ms"),
        (parse_bandwidth, "9" * 400 + "Gbps", "bandwidth must be from 1 to"),
        (parse_flops, "9" * 400 + "PFLOPS", "peak must be a number of floating-point operations per second"),
    ],
)  # fmt: skip
def test_messages(parse, text, message):
    with pytest.raises(InputError) as caught:
        parse(text)
    assert str(caught.value).startswith(message)


@given(st.integers(0, 2**45))
def test_megabytes_and_milliseconds_come_back(value):
    assert bytes_from_megabytes(megabytes(value)) == value
    assert nanoseconds_from_milliseconds(milliseconds(value)) == value


@pytest.mark.parametrize(
    ("text", "size"),
    [("80GB", 80 * 2**30), ("79.1GB", round(79.1 * 2**30)), ("1.5KB", 1536), ("1023B", 1023), ("1B", 1)],
)
def test_memory_is_written_with_few_digits(text, size):
    assert format_memory(size) == text


@pytest.mark.parametrize(
    ("text", "rate"), [("3350GBps", 3.35e12), ("12.5GBps", 12.5e9), ("6.25MBps", 6_250_000), ("3Bps", 3.0)]
)
def test_bandwidths_are_written_with_few_digits(text, rate):
    assert format_bandwidth(rate) == text


@pytest.mark.parametrize(
    ("text", "rate"), [("989.4TFLOPS", 989.4e12), ("2516.6TFLOPS", 2516.6e12), ("1.5GFLOPS", 1.5e9), ("0.5FLOPS", 0.5)]
)
def test_rates_are_written_with_few_digits(text, rate):
    assert format_flops(rate) == text


@given(st.integers(1, MEMORY_BYTES.most), st.integers(1, BYTES_PER_S.most), st.floats(0, FLOPS.most, exclude_min=True))
@example(MEMORY_BYTES.most - 1, BYTES_PER_S.most - 1, FLOPS.most)
def test_what_is_written_with_a_unit_reads_back(size, bytes_per_s, rate):
    assert parse_memory(format_memory(size)) == size
    assert parse_bandwidth(format_bandwidth(bytes_per_s)) == bytes_per_s
    assert parse_flops(format_flops(rate)) == rate


def test_short_units_are_units_and_a_number_alone_may_be_refused():
    assert parse_memory("56G") == parse_memory("56GiB") == parse_memory("57344M", needs_unit=True)
    with pytest.raises(InputError, match="memory must have a unit, got '56'; write 56GB or 56MB"):
        parse_memory("56", needs_unit=True)
