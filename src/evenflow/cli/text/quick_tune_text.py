"""The steps of the rule of thumb as text."""

from collections.abc import Sequence

from evenflow.baselines.quick_tune import TuningStep
from evenflow.cli.text.tables import aligned, headline, memory_note
from evenflow.language import _
from evenflow.model import FULL
from evenflow.simulate import Simulation
from evenflow.units import megabytes, milliseconds


def quick_tune_text(steps: Sequence[TuningStep], limit: int | None) -> str:
    """Return headline, a row for each step, and what became of the rule."""
    header = [
        "#",
        _("change"),
        _("layers"),
        _("full"),
        _("stage ms"),
        _("max - min"),
        _("peak MB"),
        _("step ms"),
        _("limit"),
    ]
    rows = []
    for number, step in enumerate(steps):
        simulation = step.simulation
        plan = simulation.plan
        rows.append(
            [
                str(number),
                step.change,
                _by_rank(plan.layers[0], "d"),
                _by_rank([plan.count(FULL, 0, rank) for rank in range(plan.num_ranks)], "d"),
                _by_rank([milliseconds(time) for time in step.stage_ns], ".1f"),
                f"{milliseconds(step.spread_ns):.1f}",
                _by_rank([megabytes(peak) for peak in simulation.peak_memory_bytes], ".0f"),
                f"{milliseconds(simulation.makespan_ns):,.3f}",
                _verdict(simulation, limit),
            ]
        )
    last = steps[-1].simulation
    verdict = memory_note(last, limit)
    if not last.fits(limit):
        verdict += "\n" + _(
            "the rule of thumb has no answer: with layers dealt evenly, full recomputation is not enough"
        )
    return "\n\n".join(
        (headline(last), aligned(header, rows, left={1, len(header) - 1}, leaving=(5, 4, 6, 0)), verdict)
    )


def _verdict(simulation: Simulation, limit: int | None) -> str:
    if limit is None:
        return _("not checked")
    return _("fits") if simulation.fits(limit) else _("OVER")


def _by_rank(values: Sequence[float], style: str) -> str:
    return " ".join(format(value, style) for value in values)
