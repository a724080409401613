"""Sizes that follow from others."""

from hypothesis import given
from hypothesis import strategies as st

from evenflow.profiles.measured.logs.degrees import shared_width, with_sizes

DEGREE = st.integers(1, 64)


@given(DEGREE, DEGREE, DEGREE, DEGREE, DEGREE, DEGREE)
def test_devices_copies_and_microbatches_follow_from_one_another(
    tp: int, pp: int, cp: int, dp: int, mbs: int, microbatches: int
) -> None:
    whole = {
        "tp": tp, "pp": pp, "cp": cp, "dp": dp, "gpus": tp * pp * cp * dp, "mbs": mbs, "microbatches": microbatches,
        "gbs": dp * mbs * microbatches,
    }  # fmt: skip
    for unknown in (
        ("gpus",),
        ("dp",),
        ("microbatches",),
        ("gpus", "microbatches"),
        ("dp", "microbatches"),
        ("gpus", "dp"),
    ):
        assert with_sizes({name: None if name in unknown else value for name, value in whole.items()}) == whole


def test_what_does_not_add_up_stays_unknown() -> None:
    assert with_sizes({"gpus": 7, "tp": 2}) == {"gpus": 7, "tp": 2}
    assert with_sizes({"gbs": 7, "mbs": 2, "dp": 2, "gpus": 2}) == {"gbs": 7, "mbs": 2, "dp": 2, "gpus": 2}
    assert with_sizes({"gbs": 7, "mbs": 2, "microbatches": 2}) == {"gbs": 7, "mbs": 2, "microbatches": 2}
    assert with_sizes({}) == {}


def test_chunks_make_a_pipeline_interleaved_and_sizes_a_name() -> None:
    assert with_sizes({"pp": 2, "vpp": 2})["schedule"] == "interleaved"
    assert with_sizes({"pp": 2, "vpp": 1})["schedule"] == "1f1b"
    assert "schedule" not in with_sizes({"pp": 1, "vpp": 1})
    assert with_sizes({"hidden": 8, "layers": 2})["model"] == "h8 L2"
    assert with_sizes({"hidden": 8, "layers": 2, "model": "mine"})["model"] == "mine"


def test_shared_experts_are_as_wide_as_others() -> None:
    assert shared_width(2, 1408) == "moe-shared-expert-intermediate-size=2816"
    assert shared_width(None, 1408) is shared_width(2, None) is None
