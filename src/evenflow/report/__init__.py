"""The report: plans and measured steps as one HTML page that needs nothing but a browser.

Python gathers values here and the page only shows them: it has no solver and no second cost model. The script and the
style in `assets` are built from the sources in ``web/``.
"""

from evenflow.report.of_simulation import shown_simulation
from evenflow.report.page import report_html
from evenflow.report.shown import Advice, Kind, ReportTable, RunBlock, Shown, ShownMemory

__all__ = ["Advice", "Kind", "ReportTable", "RunBlock", "Shown", "ShownMemory", "report_html", "shown_simulation"]
