"""Predictions minus measured steps: every action that both have, and sums that are those of the steps."""

import numpy as np
from hypothesis import assume, given, settings

from evenflow.fields import as_fields
from evenflow.model import Communication
from evenflow.profiles.steps import step_of_file
from evenflow.report.differences import differences
from evenflow.report.json_fields import report_fields
from evenflow.report.of_measured import shown_measured
from evenflow.report.of_timeline import shown_timeline
from evenflow.report.shown import Kind
from evenflow.simulate import Timeline, run
from tests.profiles.steps.builders import step_fields, timelines
from tests.thoroughness import examples


def slower(timeline: Timeline) -> Timeline:
    """The same order where everything takes a tenth more."""
    classes = timeline.graph.action_classes
    durations = np.zeros(int(classes.max()) + 1, dtype=np.int64)
    taken = (timeline.end_ns - timeline.start_ns)[timeline.graph.sequence]
    durations[classes] = taken + taken // 10
    return run(timeline.graph, durations, Communication(latency_ns=1000))


@settings(max_examples=examples(25))
@given(timelines(families=("1f1b", "interleaved", "zb-h1")))
def test_every_action_is_compared(timeline: Timeline):
    assume(timeline.graph.copied is None)
    measured = slower(timeline)
    plan = shown_timeline(timeline, name="plan", kind=Kind.PLAN)
    step = shown_measured(step_of_file(as_fields(step_fields(measured), file="step.json")), name="mine")
    (pair,) = differences([plan, step])
    assert (pair.predicted, pair.measured, pair.alone) == (plan, step, 0)
    assert len(pair.actions) == timeline.schedule.num_actions
    assert np.array_equal(pair.taken_ns[0], timeline.end_ns - timeline.start_ns)
    assert np.array_equal(pair.taken_ns[1], measured.end_ns - measured.start_ns)
    assert sum(kind.predicted_ns for kind in pair.by_kind) == int(timeline.busy_ns.sum())
    assert sum(kind.measured_ns for kind in pair.by_kind) == int(measured.busy_ns.sum())
    assert sum(kind.count for kind in pair.by_kind) == timeline.schedule.num_actions
    fields = report_fields([plan, step])
    (listed,) = fields["differences"]
    assert listed["predicted_minus_measured_ms"] == (timeline.makespan_ns - measured.makespan_ns) / 1e6
    assert [row["action"] for row in listed["actions"]] == [str(action) for action in pair.actions]
    for idle in fields["timelines"][1]["idle"]:
        assert np.isclose(idle["communication_ms"] + idle["waiting_ms"], idle["idle_ms"])


@given(timelines(families=("1f1b",)))
def test_steps_of_other_sizes_are_not_compared(timeline: Timeline):
    measured = shown_timeline(timeline, name="mine", kind=Kind.MEASURED)
    assert list(differences([measured])) == [], "nothing predicts it"
    others = shown_timeline(_longer(timeline), name="plan", kind=Kind.PLAN)
    assert list(differences([others, measured])) == []


def _longer(timeline: Timeline) -> Timeline:
    from evenflow.baselines.equal_stages import equal_stages
    from evenflow.schedule import make_schedule

    schedule = timeline.schedule
    sizes = {"num_ranks": schedule.num_ranks, "num_chunks": 1, "num_microbatches": schedule.num_microbatches + 1}
    return equal_stages(make_schedule("1f1b", **sizes), forward_ns=5, backward_ns=9).timeline
