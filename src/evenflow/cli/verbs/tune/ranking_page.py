"""The report of a ranking: the pipelines of its first rows, all configurations, its table."""

from collections.abc import Mapping

from evenflow.cli.shared.decided_plans import decided
from evenflow.cli.shared.plan_pictures import MADE_BY
from evenflow.cli.text.tune.ranking_text import ranking_table
from evenflow.export.results.json_text import format_object
from evenflow.export.results.tune_fields import TuneSetting, row_fields
from evenflow.language import _
from evenflow.targets.target import Target
from evenflow.tune.candidate import Candidate
from evenflow.tune.error import contenders
from evenflow.tune.tuned import Tuned


def ranking_page(
    tuned: Tuned,
    setting: TuneSetting,
    fields: Mapping[str, object],
    *,
    title: str,
    yours: Candidate | None,
    target: Target | None,
) -> str:
    """Return the page; `fields` are those of the JSON file, the plan of the first row, and `yours` is what runs now."""
    from evenflow.report import ReportTable, report_html
    from evenflow.report.of_files import with_own_names
    from evenflow.report.of_tune import MOST_TIMELINES, shown_ranking, tuned_configurations

    shown = contenders(tuned.ranked, min(setting.rows, MOST_TIMELINES))
    plans = [fields, *(row_fields(tuned, one, setting) for one in shown[1:])]
    columns, rows = ranking_table(tuned, setting.rows, yours)
    table = ReportTable(
        title=_("Ranking"),
        columns=tuple(columns),
        rows=tuple(map(tuple, rows)),
        notes=setting.notes,
    )
    timelines = with_own_names(shown_ranking(tuned, [format_object(plan) for plan in plans]))
    return report_html(
        decided(timelines, target=target),
        title=title,
        ranking=table,
        configurations=tuned_configurations(tuned, yours),
        made_by=MADE_BY,
    )
