import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.draw.parts.axes import TimeScale, memory_unit, nice_step, show_time, time_ticks, time_unit


@given(st.floats(1e-3, 1e12), st.integers(1, 40))
def test_a_nice_step_is_1_2_or_5_and_as_fine_as_allowed(span: float, most: int) -> None:
    step = nice_step(span, most)
    mantissa = step / 10 ** math.floor(math.log10(step) + 1e-9)
    assert min(abs(mantissa - nice) for nice in (1, 2, 5)) < 1e-6
    assert span / step <= most * (1 + 1e-6)
    assert span / step >= most / 2.5 * (1 - 1e-6)


@given(st.integers(1, 10**13), st.integers(300, 2000))
def test_ticks_lie_on_the_axis_in_even_steps_with_room_for_labels(span_ns: int, width: int) -> None:
    scale = TimeScale(left=100, width=width, span_ns=span_ns)
    ticks = time_ticks(scale)
    positions = [position for position, _ in ticks]
    assert positions[0] == 1000
    assert positions[-1] <= 10 * (100 + width)
    gaps = [after - before for before, after in itertools.pairwise(positions)]
    assert not gaps or max(gaps) - min(gaps) <= 1
    assert not gaps or min(gaps) >= 900
    assert len({label for _, label in ticks}) == len(ticks)


@pytest.mark.parametrize(
    ("span_ns", "name"),
    [(1, "ns"), (500, "ns"), (12_000, "µs"), (3_000_000, "ms"), (9_000_000_000, "ms"), (10**10, "s")],
)
def test_the_unit_suits_the_span(span_ns: int, name: str) -> None:
    assert time_unit(span_ns)[1] == name
    assert show_time(span_ns).endswith(f" {name}")


def test_memory_units() -> None:
    assert [memory_unit(size)[1] for size in (0, 1, 5000, 3 * 2**20, 56 * 2**30, 4 * 2**40)] == [
        "B", "B", "KB", "MB", "GB", "TB",
    ]  # fmt: skip
