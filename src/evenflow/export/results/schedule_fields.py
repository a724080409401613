"""An order of work on equal stages, and the list of schedule families."""

from collections.abc import Sequence

from evenflow.baselines.equal_stages import FamilyExample, example_of, idle_of_equal_stages, idle_shares, peak_live
from evenflow.language import _
from evenflow.schedule import ALIASES, FAMILIES, Bubble
from evenflow.simulate import Simulation, idle_bubbles
from evenflow.simulate.even_layout import even_layout
from evenflow.units import milliseconds

Formula = Sequence[tuple[Bubble, ...] | None]
"""The bubbles of every rank by formula; None where there is no formula."""


def schedule_fields(simulation: Simulation, formula: Formula | None) -> dict[str, object]:
    """Return sizes, times, bubbles and order; `formula` is None for an order that is of no family."""
    schedule = simulation.timeline.schedule
    timeline = even_layout(simulation.timeline)
    costs = simulation.costs
    return {
        "schedule": schedule.name,
        "ranks": schedule.num_ranks,
        "chunks": schedule.num_chunks,
        "microbatches": schedule.num_microbatches,
        "sequence_splits": schedule.sequence_splits,
        **({} if schedule.group_size is None else {"group_size": schedule.group_size}),
        "forward_ms": milliseconds(int(costs.forward_ns[0])),
        "backward_ms": milliseconds(int(costs.backward_ns[0])),
        "weight_ms": milliseconds(int(costs.weight_ns[0])),
        "makespan_ms": milliseconds(simulation.makespan_ns),
        "idle_share": [float(share) for share in idle_shares(simulation)],
        "peak_live_microbatches": [float(live) for live in peak_live(simulation)],
        "bubbles": [_bubbles(idle_bubbles(timeline, rank)) for rank in range(schedule.num_ranks)],
        **_idle_fields(simulation, of_family=formula is not None),
        "bubbles_by_formula": [_bubbles(bubbles) for bubbles in formula or [None] * schedule.num_ranks],
        "order": [" ".join(map(str, schedule.order(rank))) for rank in range(schedule.num_ranks)],
    }


def _idle_fields(simulation: Simulation, *, of_family: bool) -> dict[str, object]:
    """Return the idle time of every rank by formula, and the formula or why there is none."""
    formula = idle_of_equal_stages(simulation)
    if not of_family or formula.idle_ns is None:
        reason = formula.words if of_family else _("the order is of no family")
        return {"idle_ms_by_formula": None, "formula": None, "no_formula": reason}
    return {"idle_ms_by_formula": milliseconds(formula.idle_ns), "formula": formula.words, "no_formula": None}


def _bubbles(bubbles: tuple[Bubble, ...] | None) -> object:
    if bubbles is None:
        return None
    return [
        {"place": bubble.place.value, "count": bubble.count, "length_ms": milliseconds(bubble.length_ns)}
        for bubble in bubbles
    ]


def _example_fields(example: FamilyExample) -> dict[str, object]:
    sizes, formula = example.simulation.plan.sizes, example.formula
    return {
        "ranks": sizes.num_ranks,
        "chunks": sizes.num_chunks,
        "microbatches": sizes.num_microbatches,
        "idle_share": example.idle_share,
        "idle_share_by_formula": example.idle_share_by_formula,
        "no_formula": formula.words if formula.idle_ns is None else None,
    }


def family_fields() -> dict[str, object]:
    """Return the schedule families by name."""
    return {
        name: {
            "aliases": [alias for alias, owner in ALIASES.items() if owner == name],
            "idea": family.idea,
            "limits": family.limits,
            "memory": family.memory,
            "bubble": family.bubble,
            "example": _example_fields(example_of(name)),
            "paper": family.paper,
        }
        for name, family in FAMILIES.items()
    }
