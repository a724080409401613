"""Words of frameworks, as a training has them."""

from dataclasses import replace

import pytest

from evenflow.errors import InputError
from evenflow.predict.training import Sharding
from evenflow.profiles.measured.framework_words import (
    is_fully_shared,
    precision_of,
    recompute_of,
    schedule_of,
    sharding_of,
)
from evenflow.profiles.measured.run import MeasuredRun

RUN = MeasuredRun(id="mine", source="s", ref="r", pp=4, vpp=2)


@pytest.mark.parametrize(("word", "precision"), [
    (None, "bf16"), ("BF16", "bf16"), ("amp_bf16", "bf16"), ("fp16", "fp16"), ("mxfp8", "fp8"), ("FP8-CS", "fp8"),
    ("fp8_mx", "fp8"), ("nvfp4", "nvfp4"), ("mxfp4", "nvfp4"), ("tf32", "fp32"), ("float32", "fp32"),
])  # fmt: skip
def test_number_formats(word: str | None, precision: str) -> None:
    assert precision_of(replace(RUN, precision=word)) == precision


@pytest.mark.parametrize(("word", "sharding"), [
    (None, Sharding.NOTHING), ("0", Sharding.NOTHING), ("distopt", Sharding.OPTIMIZER), ("1", Sharding.OPTIMIZER),
    ("2", Sharding.GRADIENTS), ("3", Sharding.PARAMETERS), ("FSDP", Sharding.PARAMETERS),
    ("hsdp", Sharding.PARAMETERS),
])  # fmt: skip
def test_what_is_shared_out(word: str | None, sharding: Sharding) -> None:
    run = replace(RUN, zero=word)
    assert sharding_of(run) is sharding
    assert is_fully_shared(run) == (sharding is Sharding.PARAMETERS)


@pytest.mark.parametrize(("field", "function"), [("precision", precision_of), ("zero", sharding_of)])
def test_other_words_are_refused(field: str, function) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=f"mine: {field} must be one of .*, got 'int9'"):
        function(replace(RUN, **{field: "int9"}))


@pytest.mark.parametrize(("word", "kind"), [
    (None, "none"), ("none", "none"), ("full", "full"), ("block", "full"), ("Selective", "select"), ("offload", "none")
])  # fmt: skip
def test_recomputation(word: str | None, kind: str) -> None:
    assert recompute_of(replace(RUN, recompute=word)) == kind


@pytest.mark.parametrize(("word", "chunks", "family"), [
    (None, 2, None), ("1f1b", 1, None), ("interleaved", 2, None), ("zb-h1", 1, "zb-h1"), ("ZBVZeroBubble", 2, "zbv"),
    ("DualPipeV", 2, "dualpipe-v"), ("zbv", 1, None), ("gpipe", 1, "f-then-b"), ("of our own", 1, None),
])  # fmt: skip
def test_schedules(word: str | None, chunks: int, family: str | None) -> None:
    assert schedule_of(replace(RUN, schedule=word, vpp=chunks)) == family


def test_one_rank_has_no_schedule() -> None:
    assert schedule_of(replace(RUN, schedule="zb-h1", vpp=1, pp=1)) is None
