"""``--fix``: what is decided reads back, and spoiled decisions are one message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.predict.training import Sharding
from evenflow_torch.auto.fixing.fixed import Fixed, fixed_text
from evenflow_torch.verbs.auto.fix_option import DEGREES, ZERO, parse_fixed

DECIDED = st.fixed_dictionaries(
    {},
    optional={name: st.integers(1, 10**6) for name in DEGREES}
    | {
        ZERO: st.sampled_from(Sharding),
        "placements": st.dictionaries(
            st.from_regex(r"[a-z*]{1,5}\.[a-z_]{1,5}", fullmatch=True), st.sampled_from(["row", "0", "replicated"])
        ).map(lambda found: tuple(found.items())),
    },
)


@given(DECIDED)
def test_decisions_read_back(decided):
    fixed = Fixed(**decided)
    text = fixed_text(fixed)
    assert Fixed(**parse_fixed([text] if text else [])) == fixed
    assert Fixed(**parse_fixed(text.split(",") if text else [])) == fixed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tensor", "--fix must be NAME=VALUE, such as tensor=8, got 'tensor'"),
        ("tensor=", "must be NAME=VALUE"),
        ("=8", "must be NAME=VALUE"),
        ("", "must be NAME=VALUE"),
        ("tensor=8,,zero=1", "must be NAME=VALUE"),
        ("tensr=8", "did you mean 'tensor'?"),
        ("batch=8", "must be one of tensor, data, context, expert, pipeline, zero, or the name of a parameter"),
        ("tensor=0", "--fix: tensor must be an integer from 1 to 1,000,000, got 0"),
        ("tensor=1.5", "--fix: tensor must be an integer"),
        ("pipeline=" + "9" * 5000, "--fix: pipeline must be an integer"),
        ("zero=4", "--fix: zero must be one of 0, 1, 2, 3, got '4'"),
        ("tensor=2,tensor=4", "--fix must say tensor once"),
        ("a.b=row,a.b=row", "--fix must say a.b once"),
    ],
)
def test_spoiled_decisions(text, message):
    with pytest.raises(InputError) as caught:
        parse_fixed([text])
    assert message in str(caught.value)


def test_several_options_add_up():
    found = parse_fixed(["tensor=8, zero=1", "lm_head.weight=column"])
    assert found == {"tensor": 8, "zero": Sharding.OPTIMIZER, "placements": (("lm_head.weight", "column"),)}
