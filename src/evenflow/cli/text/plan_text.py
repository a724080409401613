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
    certificate: str = "",
    first: Sequence[str] = (),
    ahead: Sequence[str] = (),
    binding: str = "",
    rank_order: Sequence[int] = (),
) -> str:
    """Return what people come for, below the headline, then the plan, notes on it, and bubbles, as paragraphs.

    People come for the lines `first`, whether the plan fits, the certificate, and the lines `ahead` on what is next.
    Of the notes, `binding` are those on the memory limits that bind; `rank_order` says where ranks were placed.
    """
    answer = [*first, memory_note(simulation, memory_limit_bytes), certificate, *ahead]
    notes = [
        encoders_note(simulation),
        host_note(simulation),
        pairs_note(simulation),
        binding,
        ranks_note(simulation.network, rank_order),
        message_note(simulation),
    ]
    paragraphs = (
        headline(simulation),
        _lines(answer),
        plan_table(simulation, memory_limit_bytes),
        _lines(notes),
        bubble_table(simulation),
    )
    return "\n\n".join(filter(None, paragraphs))


def _lines(sentences: Sequence[str]) -> str:
    return "\n".join(filter(None, sentences))


def no_plan_text(outcome: Outcome) -> str:
    """Return why there is no plan, and which changes would make one possible."""
    reason = outcome.infeasibility
    if reason is None:
        return _("no plan was found in the time given; give more with the time limit")
    limit = outcome.memory_limit_bytes
    smallest = f"{round_up_megabytes(reason.smallest_limit_bytes):,} MB"
    evidence = "" if reason.proven else _(" or less: this is the smallest one found, not proven")
    split = outcome.restricted
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
