"""A run as two timelines."""

from dataclasses import replace

from hypothesis import given, settings

from evenflow.report import Kind, report_html
from evenflow.report.read_back import shown_of_report
from evenflow.simulate import Simulation
from evenflow_torch.pages.of_run import shown_run
from tests.report.decoder import read_page, times
from tests.strategies import moving_simulations, simulations
from tests.thoroughness import examples
from tests_torch.run.comparisons import comparison_of
from tests_torch.run.job.launched import job


@settings(max_examples=examples(25))
@given(simulations() | moving_simulations())
def test_prediction_and_measured_step(simulation: Simulation):
    of_run = replace(job(2), plan=simulation.plan, memory_limit_bytes=2**40)
    comparison = comparison_of(simulation, slower=2)
    predicted, measured = shown_run(of_run, comparison, plan='{"a": 1}')
    assert (predicted.kind, measured.kind) == (Kind.PLAN, Kind.MEASURED)
    assert predicted.peak_bytes == simulation.peak_memory_bytes
    assert measured.peak_bytes == comparison.measured_peak_bytes
    assert predicted.idle == simulation.idle, "the causes of a step that is predicted with these very costs"
    text = report_html([predicted, measured], title="t")
    assert report_html(list(shown_of_report(text, place="r.html")), title="t") == text
    page = read_page(text)
    starts, ends, _last = times(page.head["timelines"][1], page.columns[1])
    assert starts == (2 * simulation.timeline.start_ns).tolist()
    assert ends == (2 * simulation.timeline.end_ns).tolist()
    assert [each["plan"] for each in page.head["timelines"]] == [0, None]
