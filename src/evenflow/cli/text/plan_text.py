"""A plan as text, or the reason why there is none."""

from collections.abc import Sequence

from evenflow.cli.text.tables import (
    bubble_table,
    encoders_note,
    headline,
    host_note,
    memory_note,
    message_note,
    pairs_note,
    plan_table,
    ranks_note,
    round_up_megabytes,
)
from evenflow.language import _
from evenflow.simulate import Simulation
from evenflow.solve import Outcome
from evenflow.units import megabytes


def plan_text(
    simulation: Simulation,
    memory_limit_bytes: int | None,
    *,
    certificate: str,
    binding: str = "",
    rank_order: Sequence[int] = (),
) -> str:
    """Return headline, plan, certificate, memory with the limits that bind (`binding`), bubbles, as paragraphs.

    `rank_order` says where ranks were placed.
    """
    memory = memory_note(simulation, memory_limit_bytes)
    notes = [
        certificate,
        encoders_note(simulation),
        memory,
        host_note(simulation),
        pairs_note(simulation),
        binding,
        ranks_note(simulation.network, rank_order),
        message_note(simulation),
    ]
    return "\n\n".join(
        (
            headline(simulation),
            plan_table(simulation, memory_limit_bytes),
            "\n".join(note for note in notes if note),
            bubble_table(simulation),
        )
    )


def no_plan_text(outcome: Outcome) -> str:
    """Return why there is no plan, and which changes would make one possible."""
    reason = outcome.infeasibility
    if reason is None:
        return _("no plan was found in the time given; give more with the time limit")
    limit = outcome.memory_limit_bytes
    smallest = f"{round_up_megabytes(reason.smallest_limit_bytes):,} MB"
    evidence = "" if reason.proven else _(" or less: this is the smallest one found, not proven")
    split = outcome.with_layers
    lines = [
        _(
            "infeasible: no plan{split} fits in {limit_mb:,.0f} MB on all ranks",
            split=split,
            limit_mb=megabytes(limit),
        )
        if limit
        else _("infeasible"),
        _("  rank {rank} binds", rank=reason.rank),
        _(
            "  the smallest limit that would do{split} is {smallest}{evidence}",
            split=split,
            smallest=smallest,
            evidence=evidence,
        ),
    ]
    return "\n".join([*lines, *(f"  {sentence}" for sentence in reason.advice)])
