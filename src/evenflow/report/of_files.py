"""Files of plans and of measured steps as timelines of a report, told apart by what is in them."""

from collections.abc import Iterator
from dataclasses import replace

from evenflow.errors import InputError
from evenflow.export.results.json_text import MARK, format_object
from evenflow.fields import Fields, as_fields, load_json
from evenflow.language import _
from evenflow.profiles.plan_file import parse_plan_file
from evenflow.profiles.report_file import is_report
from evenflow.profiles.steps import is_step_file, step_of_file
from evenflow.profiles.timeline_file import is_timeline_file, timeline_file
from evenflow.ranges import MILLISECONDS
from evenflow.report.of_measured import shown_measured, with_measured_idle
from evenflow.report.of_simulation import shown_simulation
from evenflow.report.of_timeline import shown_timeline
from evenflow.report.read_back import shown_of_report
from evenflow.report.shown import Kind, Shown
from evenflow.report.what_if import costs_of_stages
from evenflow.simulate import Simulation, simulate
from evenflow.solve import Outcome, Status
from evenflow.units import nanoseconds_from_milliseconds

_PROVEN = (Status.OPTIMAL.value, Status.FEASIBLE.value)


def shown_of_text(text: str, *, place: str, name: str) -> Iterator[Shown]:
    """Give the timelines in a file: a plan file, ``run --timeline``, a report, or a measured step in a form of its own.

    `place` names the file in messages, and `name` on the page. A plan is simulated with the model and the messages
    that it was made for. Raises InputError for any other file.
    """
    if is_report(text):
        yield from shown_of_report(text, place=place)
        return
    fields = as_fields(load_json(text, file=place), file=place)
    if is_timeline_file(fields):
        yield from _run(fields, name=name)
    elif is_step_file(fields):
        yield shown_measured(step_of_file(fields), name=name)
    elif "layers" in fields and "layers_description" not in fields:
        yield _plan(text, place=place, name=name)
    else:
        raise InputError(
            rule=_("must be a plan file, the timeline of a run, a report, or a measured step"),
            place=place,
            remedy=_("take what --json of evenflow plan or --timeline of evenflow run wrote"),
        )


def with_own_names(timelines: list[Shown]) -> list[Shown]:
    """Return timelines of which no two have the same name: a second one gets a number."""
    taken: dict[str, int] = {}
    named = []
    for timeline in timelines:
        count = taken.get(timeline.name, 0) + 1
        taken[timeline.name] = count
        named.append(timeline if count == 1 else replace(timeline, name=f"{timeline.name} ({count})"))
    return named


def _plan(text: str, *, place: str, name: str) -> Shown:
    """Return the plan in a plan file."""
    planned = parse_plan_file(text, place=place)
    if planned.network is None:
        raise InputError(
            rule=_("must hold its model, as 'network'"),
            place=place,
            remedy=_("plan again: what evenflow writes now holds it"),
        )
    simulation = simulate(planned.network, planned.plan, communication=planned.communication)
    limit = planned.memory_limit_bytes if planned.network.has_memory else None
    fields = as_fields(load_json(text, file=place), file=place)
    certificate = _certificate(fields, simulation)
    carried = format_object({key: value for key, value in fields.values.items() if key != MARK})
    shown = shown_simulation(simulation, name=name, memory_limit_bytes=limit, certificate=certificate, plan=carried)
    return replace(shown, what_if=costs_of_stages()) if "two_level" in fields else shown


def _certificate(fields: Fields, simulation: Simulation) -> str:
    """Return how good a plan was proven to be, where its file says that of the plan as it is simulated here."""
    status, bound = fields.values.get("status"), fields.values.get("lower_bound_ms")
    if status not in _PROVEN or bound not in MILLISECONDS or "two_level" in fields:
        return ""
    outcome = Outcome(
        status=Status(status),
        simulation=simulation,
        lower_bound_ns=nanoseconds_from_milliseconds(fields.number("lower_bound_ms", MILLISECONDS)),
        memory_limit_bytes=None,
        solve_seconds=0.0,
    )
    return outcome.certificate()


def _run(fields: Fields, *, name: str) -> Iterator[Shown]:
    """Give prediction and measured step of a run."""
    file = timeline_file(fields)
    yield shown_timeline(
        file.predicted,
        name=_("{name}, predicted", name=name),
        kind=Kind.PLAN,
        limit_bytes=file.memory_limit_bytes,
        peak_bytes=file.predicted_peak_bytes,
    )
    measured = shown_timeline(
        file.measured,
        name=_("{name}, measured", name=name),
        kind=Kind.MEASURED,
        limit_bytes=file.memory_limit_bytes,
        peak_bytes=file.measured_peak_bytes,
    )
    yield with_measured_idle(measured)
