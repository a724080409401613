"""What a plan leaves free of a memory limit where fitted peaks may be off, and how sure it fits then."""

from collections.abc import Sequence
from dataclasses import replace

from evenflow import solve
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Plan, Request
from evenflow.schedule import FAMILIES, default_family
from evenflow.simulate import Simulation
from evenflow.simulate.peak_certainty import fit_probability, margin_bytes
from evenflow.units import megabytes

CONFIDENCE = "--confidence"
_SHARE = 0.1
"""Share of the time for a quick plan."""
_MOST_SECONDS = 5.0
_NEARLY_SURE = 0.99
_UNLIKE = 1.05
"""How much larger the errors of a plan may be than those of the quick one."""


def with_margin(
    request: Request, *, schedule: str, confidence: float | None, time_limit_s: float, known: Sequence[Plan] = ()
) -> tuple[Request, float, tuple[Plan, ...]]:
    """Return the request with the limit that peaks must keep, so that a plan fits although they may be off.

    Without a confidence the standard error of a fitted peak is left free; nothing where no memory was fitted. How far a
    plan's peaks may be off depends on the plan: a quick one tells. Also returned are the time limit that it leaves, and
    all plans that are then `known`.

    Raises:
        InputError: a confidence without a limit, or for memory that was not fitted.
    """
    limit, error = request.memory_limit_bytes, request.network.peak_error
    if confidence is not None and (error is None or limit is None):
        rule = _("must come with layers whose memory was fitted to peaks, and with a memory limit")
        remedy = _("make the layer file from an init file, with --init")
        raise InputError(value=confidence, rule=rule, place=CONFIDENCE, remedy=remedy)
    if error is None or limit is None:
        return request, time_limit_s, tuple(known)
    request = with_error_free(request)
    if confidence is None:
        return request, time_limit_s, tuple(known)
    quick_s = min(_MOST_SECONDS, _SHARE * time_limit_s)
    family = schedule if schedule in FAMILIES else default_family(num_chunks=request.sizes.num_chunks)
    quick = solve.solve(request, schedule=family, time_limit_s=quick_s, known=known)
    if quick.simulation is not None:
        known = (*known, quick.simulation.plan)
        margin = round(_UNLIKE * margin_bytes(quick.simulation, confidence))
        request = _with_less(replace(request, memory_limit_bytes=limit), margin)
    return request, time_limit_s - quick_s, tuple(known)


def with_error_free(request: Request) -> Request:
    """Return the request with the standard error of a fitted peak taken from its limit, where memory was fitted."""
    error = request.network.peak_error
    if error is None or request.memory_limit_bytes is None:
        return request
    return _with_less(request, error.standard_error_bytes)


def _with_less(request: Request, margin_bytes: int) -> Request:
    assert request.memory_limit_bytes is not None
    return replace(request, memory_limit_bytes=max(1, request.memory_limit_bytes - margin_bytes))


def certainty_note(simulation: Simulation, *, limit_bytes: int | None, confidence: float | None) -> str:
    """Return how sure the plan fits in the limit that was given; empty where no memory was fitted."""
    error = simulation.network.peak_error
    if error is None or limit_bytes is None:
        return ""
    probability = fit_probability(simulation, limit_bytes)
    note = _(
        "fits in {limit:,.0f} MB with probability {probability}: fitted peaks are {error:,.0f} MB off (standard "
        "error), and the highest is {free:,.0f} MB below",
        limit=megabytes(limit_bytes),
        probability=f"{probability:.2f}" if probability <= _NEARLY_SURE else f"> {_NEARLY_SURE}",
        error=megabytes(error.standard_error_bytes),
        free=megabytes(limit_bytes - max(simulation.peak_memory_bytes)),
    )
    if confidence is not None and probability < confidence:
        note += "\n" + _("this plan misses the confidence of {confidence:g}: ask for more", confidence=confidence)
    return note


def certainty_fields(simulation: Simulation, *, limit_bytes: int | None) -> dict[str, object]:
    """Return the limit that was given and how sure the plan fits in it, for a result; empty without fitted memory."""
    if simulation.network.peak_error is None or limit_bytes is None:
        return {}
    return {
        "fits": {
            "limit_mb": megabytes(limit_bytes),
            "probability": fit_probability(simulation, limit_bytes),
            "standard_error_mb": megabytes(simulation.network.peak_error.standard_error_bytes),
        }
    }
