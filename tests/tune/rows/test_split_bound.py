"""Bounds of rows and of the whole space are never above those of configurations."""

from dataclasses import replace
from functools import cache
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.cluster.data_sheets import accelerator_named
from evenflow.cluster.topology import Topology
from evenflow.predict.training import Software
from evenflow.predict.transformer import Experts, LatentAttention
from evenflow.targets.registry import target_named
from evenflow.targets.tuning import for_framework
from evenflow.tune.bounds import StepBounds
from evenflow.tune.candidate import Pricing
from evenflow.tune.question import TuningQuestion
from evenflow.tune.rows.row import SplitRow, least_bound_ns, num_refuted
from evenflow.tune.rows.split_bound import floor_ns, split_ns
from evenflow.tune.space import Space, space_of
from tests.targets.questions import DENSE
from tests.thoroughness import examples
from tests.tune.questions import device_of

LATENT = LatentAttention(query_rank=512, key_value_rank=256, rotary_dim=64, plain_dim=128, value_dim=128)
MODELS = {
    "dense": DENSE,
    "narrow heads": replace(DENSE, kv_heads=1, tied=True),
    "experts": replace(DENSE, experts=Experts(count=8, active=2, ffn=1408, shared_ffn=512, capacity_factor=1.5)),
    "latent": replace(DENSE, latent=LATENT, experts=Experts(count=8, active=4, ffn=704), predicted_tokens=1),
    "window": replace(DENSE, window=512, unwindowed_layers=(1, 5)),
}
KINDS = [
    (name, target, gigabytes, precision)
    for name in MODELS
    for target in ("megatron", "torchtitan", "deepspeed")
    for gigabytes, precision in ((80, "bf16"), (2, "bf16"), (4, "fp8"))
]


@cache
def space(kind: tuple[str, str, int, str]) -> tuple[TuningQuestion, StepBounds, Space]:
    name, target, gigabytes, precision = kind
    question = TuningQuestion(
        model=MODELS[name],
        topology=Topology(accelerator=accelerator_named("h100"), domain_devices=4),
        devices=16,
        global_batch=32,
        sequence=4096,
        memory_limit_bytes=device_of(gigabytes),
        precision=precision,
    )
    question = for_framework(question, target_named(target), None)
    if question.model.experts is not None and target == "megatron":
        question = replace(question, schedules=(*question.schedules, "interleaved-overlap"))
    if gigabytes == 4:
        question = replace(question, software=Software(fused_attention=False, fused_elementwise=False))
    return question, StepBounds(pricing=Pricing(question=question)), space_of(question)


@settings(max_examples=examples(120), deadline=None)
@given(st.data())
def test_no_configuration_is_bounded_below_its_row(data: st.DataObject) -> None:
    question, bounds, every = space(data.draw(st.sampled_from(KINDS)))
    split = data.draw(st.sampled_from(every.splits))
    least = min(bounds.step_ns(training) for training in split.trainings())
    bound = split_ns(bounds, split)
    assert bound <= least
    if bound < inf:
        assert 0 < floor_ns(question) <= bound


@pytest.mark.parametrize("name", MODELS)
def test_some_rows_that_do_not_fit_are_told_from_the_others(name: str) -> None:
    _question, bounds, every = space((name, "megatron", 2, "bf16"))
    fits = [split_ns(bounds, split) < inf for split in every.splits]
    assert any(fits)
    assert not all(fits)


def test_a_row_counts_as_its_configurations() -> None:
    question, bounds, every = space(KINDS[0])
    rows = [
        SplitRow(split=split, pricing=bounds.pricing, lower_bound_ns=place) for place, split in enumerate(every.splits)
    ]
    made = [one for row in rows for one in row.candidates()]
    assert [one.training for one in made] == every.legal
    for step_ns in (0, 3, len(rows) - 1, inf):
        assert num_refuted((), rows, step_ns) == num_refuted(made, (), step_ns)
        assert num_refuted(made[:7], rows[1:], step_ns) == num_refuted(made[:7], rows[1:2], step_ns) + num_refuted(
            (), rows[2:], step_ns
        )
    assert least_bound_ns(made, ()) == least_bound_ns((), rows) == 0
    assert least_bound_ns((), ()) == inf
    assert question.devices == 16
