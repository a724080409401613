import numpy as np
from hypothesis import given, settings

from evenflow.fields import as_fields
from evenflow.profiles.steps import step_of_file
from evenflow.report import report_html
from evenflow.report.of_measured import shown_measured
from evenflow.simulate import Timeline
from tests.profiles.steps.builders import step_fields, timelines
from tests.report.decoder import read_page
from tests.thoroughness import examples


@settings(max_examples=examples(25))
@given(timelines())
def test_a_page_shows_a_measured_step_as_it_was(timeline: Timeline):
    step = step_of_file(as_fields(step_fields(timeline), file="step.json"))
    page = read_page(report_html([shown_measured(step, name="mine")], title="mine", made_by="test"))
    (head,) = page.head["timelines"]
    assert (head["kind"], head["name"]) == ("measured", "mine, measured")
    assert head["makespan_ns"] == timeline.makespan_ns
    for idle, busy_ns in zip(head["idle"], timeline.busy_ns.tolist(), strict=True):
        assert idle["communication_ns"] + idle["waiting_ns"] == idle["total_ns"] == timeline.makespan_ns - busy_ns
        assert min(idle.values()) >= 0
    assert head["static_bytes"] is None
    assert head["peak_bytes"] == [40 * 2**30] * timeline.schedule.num_ranks
    assert np.array_equal(head["busy_ns"], timeline.busy_ns)
    assert any(note.startswith("Step 7") for note in head["notes"])
