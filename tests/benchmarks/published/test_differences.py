"""Differences between configurations: pairs of a sweep, by hand and by their laws."""

import pytest
from benchmarks.published.differences import NEAR, Compared, difference_ranges, difference_table, differences
from hypothesis import given
from hypothesis import strategies as st

from tests.profiles.measured.rows import make_run

STEPS = st.lists(st.tuples(st.floats(1, 9), st.floats(1, 9)), min_size=3, max_size=6)


def compared(steps, **fields) -> list[Compared]:  # type: ignore[no-untyped-def]
    """Return a sweep of microbatches, from pairs of a predicted and a measured step."""
    return [
        Compared(
            run=make_run(id=f"{fields} {number}", mbs=str(2**number), step_s=repr(measured), **fields),
            generation="Hopper",
            predicted_s=predicted,
        )
        for number, (predicted, measured) in enumerate(steps)
    ]


def test_pairs_by_hand() -> None:
    found = differences(compared([(1.0, 2.0), (1.1, 2.0), (1.2, 3.0), (9.0, 1.0)]))
    assert set(found) == {"Hopper, dense", "dense", "all"}
    (values,) = found["all"]["lab"]
    # The last is predicted to be too far away from each of the others.
    assert values == pytest.approx([2 / 2 / 1.1 - 1, 3 / 2 / 1.2 - 1, 3 / 2 / (1.2 / 1.1) - 1])


def test_a_configuration_that_was_measured_twice_counts_once() -> None:
    runs = compared([(1.0, 2.0), (1.1, 2.0), (1.2, 2.0)])
    again = Compared(run=make_run(id="again", mbs="1", step_s="4"), generation="Hopper", predicted_s=1.0)
    (values,) = differences([*runs, again])["all"]["lab"]
    assert values == pytest.approx([2 / 3 / 1.1 - 1, 2 / 3 / 1.2 - 1, 1.1 / 1.2 - 1])


def test_groups_and_sources_are_apart_and_far_pairs_no_group() -> None:
    steps = [(1.0, 1.0), (1.1, 1.0), (1.2, 1.0)]
    far = [(1.0, 1.0), (2.0, 1.0), (4.0, 1.0)]
    every = [*compared(steps), *compared(steps, gbs="32"), *compared(steps, source="other"), *compared(far, gbs="64")]
    found = differences(every)["all"]
    assert {source: [len(group) for group in of] for source, of in found.items()} == {"lab": [3, 3], "other": [3]}


@given(STEPS, st.floats(0.1, 10))
def test_what_is_wrong_alike_in_all_does_not_count(steps, factor) -> None:
    one = differences(compared([(predicted, measured) for predicted, measured in steps]))
    other = differences(compared([(predicted * factor, measured) for predicted, measured in steps]))
    ratios = [(b / a) for a, _ in steps for b, _ in steps]
    if all(abs(ratio - NEAR) > 1e-6 for ratio in ratios):  # on the edge, rounding decides
        flat = [[sorted(group) for group in of.get("all", {}).get("lab", [])] for of in (one, other)]
        assert len(flat[0]) == len(flat[1])
        for mine, theirs in zip(*flat, strict=True):
            assert mine == pytest.approx(theirs)


def test_perfect_predictions_differ_in_nothing() -> None:
    found = difference_ranges(differences(compared([(1.0, 3.0), (1.1, 3.3), (1.2, 3.6)])))
    low, high, pairs, sources = found["all"]
    assert (pairs, sources) == (3, 1)
    assert (low, high) == pytest.approx((0, 0))


def test_the_table_says_how_far_apart_two_must_be() -> None:
    table = difference_table({"all": (-0.2, 0.1, 1234, 2)})
    assert table.splitlines()[1].split() == ["all", "1,234", "2", "-20", "%", "+10", "%", "25", "%"]
