import itertools

import pytest

from evenflow.draw.palette import (
    INK,
    OPERATIONS,
    RECOMPUTE,
    backward_shades,
    forward_shades,
    input_gradient_shades,
    weight_gradient_shades,
)


def luminance(colour: str) -> float:
    """Relative luminance of sRGB. [WCAG 2.2]"""
    channels = [byte / 255 for byte in bytes.fromhex(colour[1:])]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def lightness(colour: str) -> float:
    """L* of CIELAB, what is left in grey print."""
    y = luminance(colour)
    return 116 * y ** (1 / 3) - 16 if y > 0.008856 else 903.3 * y


@pytest.mark.parametrize("num_chunks", [1, 2, 3, 4, 8])
def test_directions_differ_in_grey(num_chunks: int) -> None:
    forward = [lightness(colour) for colour in forward_shades(num_chunks)]
    backward = [lightness(colour) for colour in backward_shades(num_chunks)]
    assert max(forward) < 90  # told from white bubbles
    assert min(forward) > max(backward) + 3
    assert min(backward) > lightness(RECOMPUTE) + 20


@pytest.mark.parametrize("num_chunks", [2, 3, 4, 8])
def test_later_chunks_are_darker(num_chunks: int) -> None:
    for shades in [shades(num_chunks) for _, shades in OPERATIONS]:
        levels = [lightness(colour) for colour in shades]
        assert len(levels) == num_chunks
        assert all(one > other for one, other in itertools.pairwise(levels))


@pytest.mark.parametrize("num_chunks", [1, 2, 8])
def test_parts_of_a_backward_differ_in_grey(num_chunks: int) -> None:
    forward = [lightness(colour) for colour in forward_shades(num_chunks)]
    inputs = [lightness(colour) for colour in input_gradient_shades(num_chunks)]
    weights = [lightness(colour) for colour in weight_gradient_shades(num_chunks)]
    assert min(forward) > max(inputs) + 3
    assert min(weights) > max(inputs) + 10
    assert max(weights) < 92
    assert min(inputs) > lightness(RECOMPUTE) + 20


def test_numbers_can_be_read_on_every_shade() -> None:
    for colour in [colour for _, shades in OPERATIONS for colour in shades(8)]:
        contrast = (luminance(colour) + 0.05) / (luminance(INK) + 0.05)
        assert contrast > 3.5
