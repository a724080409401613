"""Reports of what library calls return, as text of a page and for notebooks."""

from collections.abc import Sequence
from html import escape
from itertools import zip_longest

from evenflow.errors import InputError
from evenflow.export.results.json_text import format_object
from evenflow.export.results.outcome_fields import outcome_fields
from evenflow.export.results.tune_fields import TuneSetting, row_fields, tune_fields
from evenflow.language import _
from evenflow.profiles.plan_fields import network_fields, simulation_fields
from evenflow.report.of_files import with_own_names
from evenflow.report.of_simulation import shown_simulation
from evenflow.report.of_tune import MOST_TIMELINES, shown_ranking, tuned_configurations
from evenflow.report.page import report_html
from evenflow.report.shown import Shown
from evenflow.simulate import Simulation
from evenflow.solve import BestOutcome, Outcome
from evenflow.tune.tuned import Tuned

_HEIGHT = 720
"""Pixels of a page in a notebook."""


def report_page(*values: Simulation | Outcome | BestOutcome | Tuned, names: Sequence[str] = (), title: str = "") -> str:
    """Return plans beside each other as the text of one HTML file, which loads nothing from anywhere.

    Args:
        values: What `evenflow.simulate`, `evenflow.plan`, `evenflow.plan_best` and `evenflow.tune` return; the first is
            what the others are compared with.
        names: A name for each, in order; without one it has that of its model.
        title: Title of the page; by default the names.

    Raises:
        InputError: no value, or one without a plan.
    """
    shown: list[Shown] = []
    for value, name in zip_longest(values, names[: len(values)], fillvalue=""):
        assert not isinstance(value, str)  # there are never more names than values
        timelines = _shown(value, name)
        if not timelines:
            rule = _("must have a plan, to be shown")
            raise InputError(rule=rule, place=name or type(value).__name__)
        shown += timelines
    shown = with_own_names(shown)
    tuned = values[0] if len(values) == 1 else None
    if isinstance(tuned, Tuned):
        return report_html(shown, title=title or tuned.question.model.name, configurations=tuned_configurations(tuned))
    return report_html(shown, title=title or ", ".join(timeline.name for timeline in shown))


def notebook_html(value: object) -> str | None:
    """Return a value as a frame with its page; without a plan as text; None for what has neither."""
    if not isinstance(value, Simulation | Outcome | BestOutcome | Tuned):
        return None
    if not _shown(value, ""):
        assert not isinstance(value, Simulation)
        return f"<pre>{escape(_summary(value))}</pre>"
    page = escape(report_page(value), quote=True)
    attributes = f'title="{escape(_("report of a plan"), quote=True)}" width="100%" height="{_HEIGHT}" frameborder="0"'
    return f'<iframe srcdoc="{page}" sandbox="allow-scripts allow-downloads" {attributes}></iframe>'


def _summary(value: Outcome | BestOutcome | Tuned) -> str:
    return value.outcome.summary() if isinstance(value, BestOutcome) else value.summary()


def _shown(value: Simulation | Outcome | BestOutcome | Tuned, name: str) -> list[Shown]:
    """Return the timelines of a value; none where it has no plan."""
    if isinstance(value, Tuned):
        return _ranking(value)
    if isinstance(value, BestOutcome):
        value = value.outcome
    if isinstance(value, Simulation):
        fields = simulation_fields(value, None)
        return [_plan(value, fields, name=name)]
    if value.simulation is None or value.plan is None:
        return []
    fields = outcome_fields(value, value.plan.sizes, schedule=value.plan.schedule)
    limit = value.memory_limit_bytes
    return [_plan(value.simulation, fields, name=name, limit=limit, certificate=value.certificate())]


def _plan(
    simulation: Simulation, fields: dict[str, object], *, name: str, limit: int | None = None, certificate: str = ""
) -> Shown:
    return shown_simulation(
        simulation,
        name=name or simulation.network.name,
        memory_limit_bytes=limit,
        certificate=certificate,
        plan=format_object(fields | network_fields(simulation)),
    )


def _ranking(tuned: Tuned) -> list[Shown]:
    """Return the first rows of a ranking."""
    if tuned.best is None:
        return []
    setting = TuneSetting(rows=MOST_TIMELINES)
    others = (row_fields(tuned, candidate, setting) for candidate in tuned.ranked[1:MOST_TIMELINES])
    return shown_ranking(tuned, [format_object(fields) for fields in (tune_fields(tuned, setting), *others)])
