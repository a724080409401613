"""Bounds of configurations against the predictions of plans."""

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evenflow.cluster.data_sheets import accelerator_named
from evenflow.cluster.topology import Topology
from evenflow.model import FULL, SELECT, Plan
from evenflow.predict.host_update import HostUpdate
from evenflow.predict.training import Sharding, Software
from evenflow.predict.transformer import Experts, Transformer
from evenflow.tune.axes import Axis, schedule_of
from evenflow.tune.bounds import StepBounds
from evenflow.tune.candidate import Pricing
from evenflow.tune.question import TuningQuestion
from evenflow.tune.space import space_of
from tests.thoroughness import examples
from tests.tune.questions import device_of

SOFTWARE = [
    Software(),
    Software(overlaps_pipeline=False),
    Software(overlaps_pipeline=False, messages_in_turn=True, overlaps_gradients=False, overlaps_parameters=False),
]
HOST = HostUpdate(link_bytes_per_s=50 * 10**9)
"""Where messages are not hidden and gradients are, half of the optimizer's state may be on the host."""
FAMILIES = ("1f1b", "interleaved", "interleaved-less-memory", "zb-h1", "zbv", "1f1b-v", "f-then-b")
PAIRED = ("1f1b-overlap", "interleaved-overlap", "dualpipe-v-overlap", "zbv-overlap")


DENSE = Transformer(hidden=2048, layers=9, heads=16, kv_heads=8, head_dim=128, ffn=5632, vocabulary=32000, gated=True)
MODELS = [
    DENSE,
    replace(DENSE, tied=True),
    replace(DENSE, experts=Experts(count=4, active=2, ffn=2048, dense_layers=2)),
]


@cache
def asked(
    number: int, gigabytes: int, model: Transformer = DENSE, *, allow_empty: bool = False
) -> tuple[Pricing, StepBounds, list]:
    question = TuningQuestion(
        model=model,
        topology=Topology(accelerator=accelerator_named("h100"), domain_devices=2),
        devices=8,
        global_batch=24,
        sequence=4096,
        memory_limit_bytes=device_of(gigabytes),
        software=SOFTWARE[number],
        schedules=FAMILIES if model.experts is None else (*FAMILIES, *PAIRED),
        allow_empty=allow_empty,
        **({"optimizer_offload": 0.5, "host_update": HOST} if number == 1 else {}),
    )
    pricing = Pricing(question=question)
    return pricing, StepBounds(pricing=pricing), space_of(question).legal


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_no_plan_of_a_configuration_is_predicted_below_its_bound(data: st.DataObject):
    may_be_empty = data.draw(st.booleans())
    pricing, bounds, legal = asked(
        data.draw(st.integers(0, 2)),
        data.draw(st.sampled_from([6, 10, 80])),
        data.draw(st.sampled_from(MODELS)),
        allow_empty=may_be_empty,
    )
    training = data.draw(st.sampled_from(legal))
    bound = bounds.order_ns(training)
    assert bounds.step_ns(training) <= bound
    ranks, chunks = training.degrees.pipeline, training.degrees.chunks
    cells, layers = ranks * chunks, training.model.layers
    assert may_be_empty or cells <= layers
    unique = None if may_be_empty else lambda border: border
    within = st.integers(0, layers) if may_be_empty else st.integers(1, layers - 1)
    for _ in range(6):
        borders = sorted(data.draw(st.lists(within, unique_by=unique, min_size=cells - 1, max_size=cells - 1)))
        sizes = [end - start for start, end in zip([0, *borders], [*borders, layers], strict=True)]
        again = [data.draw(st.integers(0, size)) for size in sizes]
        kind = data.draw(st.sampled_from([FULL, SELECT]))
        order = pricing.orders.of(schedule_of(training), pricing.request(training).sizes)
        table = order.schedule.stage_table.tolist()
        plan = Plan(
            schedule=schedule_of(training),
            num_microbatches=training.microbatches,
            layers=tuple(tuple(sizes[stage] for stage in row) for row in table),
            recompute={kind: tuple(tuple(again[stage] for stage in row) for row in table)},
        )
        found = pricing.planned_step(training, plan)
        assert found is None or bound <= found.step_ns


@pytest.mark.parametrize("number", [0, 2])
def test_what_comes_beside_a_pipeline_is_bounded(number: int):
    """One layer in every stage leaves no choice, and buckets are full or alone: all but what is hidden is known."""
    pricing, _bounds, _legal = asked(number, 80)
    fixed = {Axis.PIPELINE: 4, Axis.TENSOR: 1, Axis.CONTEXT: 1, Axis.MICROBATCH: 1, Axis.ZERO: 1, Axis.SCHEDULE: "1f1b"}
    question = replace(pricing.question, fixed=fixed, model=replace(DENSE, layers=4))
    pricing = Pricing(question=question)
    (training,) = space_of(question).legal
    found = pricing.planned_step(
        training, Plan(schedule="1f1b", num_microbatches=training.microbatches, layers=((1,) * 4,))
    )
    assert found is not None
    pipeline_ns = pricing.predicted(training, found.plan).simulation.makespan_ns
    behind_ns = found.step_ns - pipeline_ns
    bounds = StepBounds(pricing=pricing)
    assert bounds.order_ns(training) <= found.step_ns
    assert bounds.order_ns(training) - pipeline_ns >= 0.8 * behind_ns
    assert 0 < bounds.whole_ns(training, pipeline_ns) - pipeline_ns <= behind_ns


@pytest.mark.parametrize("sharding", Sharding)
def test_without_a_pipeline_the_bound_is_the_step(sharding: Sharding):
    pricing, _bounds, _legal = asked(0, 80)
    question = replace(
        pricing.question, fixed={Axis.PIPELINE: 1, Axis.TENSOR: 2, Axis.CONTEXT: 1, Axis.MICROBATCH: 1,
                                 Axis.ZERO: sharding, Axis.SCHEDULE: "1f1b"},
    )  # fmt: skip
    pricing = Pricing(question=question)
    (training,) = space_of(question).legal
    plan = Plan(schedule="1f1b", num_microbatches=training.microbatches, layers=((training.model.layers,),))
    found = pricing.planned_step(training, plan)
    assert found is not None
    assert StepBounds(pricing=pricing).step_ns(training) == pytest.approx(found.step_ns, rel=1e-5)
