"""What could be gained: shares of the best degrees' step, between nothing and all of it."""

from hypothesis import given
from hypothesis import strategies as st

from evenflow.tune.answers.two_level import TwoLevel, TwoLevelStep

STEPS = st.none() | st.integers(1, 10**12).map(
    lambda step_ns: TwoLevelStep(
        step_ns=step_ns, microbatch=1, num_microbatches=1, schedule="1f1b", peak_bytes=1, description=""
    )
)


@given(STEPS, STEPS, STEPS, st.integers(0, 10**12))
def test_a_gain_is_over_the_best_degrees(degrees, plain, free, bound_ns: int) -> None:
    found = TwoLevel(row=1, degrees=degrees, plain=plain, free=free, lower_bound_ns=bound_ns)
    if None in (degrees, plain):
        assert found.gain is found.most_gain is found.best_degrees is None
        return
    best_ns = min(degrees.step_ns, plain.step_ns)
    assert found.best_degrees.step_ns == best_ns
    assert (found.gain is None) == (free is None)
    assert (found.most_gain is None) == (bound_ns == 0)
    for gain, step_ns in ((found.gain, free and free.step_ns), (found.most_gain, bound_ns)):
        if gain is not None:
            assert 0 <= gain < 1
            assert gain * best_ns == max(0, best_ns - step_ns) or abs(gain * best_ns - (best_ns - step_ns)) < 1e-3
