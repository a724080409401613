"""What Python prints of an outcome: the answer of ``evenflow plan``, without what only a command line has."""

from evenflow.cli.text.beside_text import step_line
from evenflow.cli.text.best_text import best_text
from evenflow.cli.text.equal_stages_text import equal_stages_lines
from evenflow.cli.text.plan_text import no_plan_text, plan_text
from evenflow.cli.text.tables import binding_note
from evenflow.solve import BestOutcome, Outcome


def outcome_text(value: object) -> str | None:
    """Return the answer that an outcome is; None for other values."""
    if isinstance(value, BestOutcome):
        return f"{_answer(value.outcome)}\n\n{best_text(value)}"
    return _answer(value) if isinstance(value, Outcome) else None


def _answer(outcome: Outcome) -> str:
    simulation, limit = outcome.simulation, outcome.memory_limit_bytes
    if simulation is None:
        return no_plan_text(outcome)
    return plan_text(
        simulation,
        limit,
        certificate=outcome.certificate(),
        first=[
            step_line(simulation),
            *equal_stages_lines(simulation, limit, allow_empty=not outcome.restrictions.full_cells),
        ],
        binding=binding_note(outcome),
        rank_order=outcome.rank_order,
    )
