"""A plan beside another one, in a line."""

from evenflow.language import _
from evenflow.simulate import Simulation
from evenflow.units import milliseconds

_EQUAL_SHARE = 0.0005
"""Share of a step that is nothing in the figures that are shown."""


def step_ns(simulation: Simulation) -> int:
    """Return the time of a step, with encoders beside the pipeline where there are any."""
    return simulation.makespan_ns if simulation.encoded is None else simulation.encoded.step_ns


def step_line(simulation: Simulation) -> str:
    """Return the time of a step in words."""
    return _("step {step_ms:,.3f} ms", step_ms=milliseconds(step_ns(simulation)))


def beside_line(simulation: Simulation, name: str, other: Simulation, memory_limit_bytes: int | None) -> str:
    """Return how much shorter the step of a plan is than that of another with a name, and whether that one fits."""
    before_ns = step_ns(other)
    saved = 1 - step_ns(simulation) / before_ns
    if abs(saved) < _EQUAL_SHARE:
        line = _("as long as {name}", name=name)
    else:
        words = {"percent": 100 * abs(saved), "name": name, "step_ms": milliseconds(before_ns)}
        line = (
            _("{percent:.1f} % shorter than {name}: {step_ms:,.1f} ms", **words)
            if saved > 0
            else _("{percent:.1f} % longer than {name}: {step_ms:,.1f} ms", **words)
        )
    return line if other.fits(memory_limit_bytes) else _("{line}, does not fit", line=line)
