"""The timelines of a run's file as a report shows them."""

from dataclasses import replace

from hypothesis import given, settings

from evenflow.export.results.json_text import format_object
from evenflow.profiles.timeline_file import timeline_fields
from evenflow.report import Kind, report_html
from evenflow.report.of_files import shown_of_text
from evenflow_torch.results.run_fields import timeline_file_of
from tests.report.decoder import read_page
from tests.strategies import simulations
from tests.thoroughness import examples
from tests_torch.run.comparisons import comparison_of
from tests_torch.run.job.launched import job


@settings(max_examples=examples(20))
@given(simulations())
def test_a_run_gives_its_prediction_and_what_was_measured(simulation):
    step = timeline_file_of(replace(job(2), plan=simulation.plan), comparison_of(simulation, slower=3))
    text = format_object(timeline_fields(step, plan=simulation.plan))
    predicted, measured = shown_of_text(text, place="t.json", name="t")
    assert (predicted.kind, measured.kind) == (Kind.PLAN, Kind.MEASURED)
    assert (predicted.name, measured.name) == ("t, predicted", "t, measured")
    assert measured.makespan_ns == 3 * predicted.makespan_ns == 3 * simulation.makespan_ns
    page = read_page(report_html([predicted, measured], title="t"))
    assert "fill" not in page.columns[1]
    idle = page.head["timelines"][1]["idle"]
    assert [rank["total_ns"] for rank in idle] == (measured.makespan_ns - measured.busy_ns).tolist()
    assert all(rank["communication_ns"] + rank["waiting_ns"] == rank["total_ns"] for rank in idle)
