"""What sequences in parts leave out, said before anything else."""

import click

from evenflow.language import _
from evenflow.model import FULL, Network
from evenflow.schedule import FAMILIES


def note_left_out(network: Network, *, sequence_splits: int, schedule: str) -> None:
    """Say that full recomputation is left out, where the layers offer it and sequences come in parts.

    A schedule that has no parts is refused later.
    """
    has_parts = schedule not in FAMILIES or FAMILIES[schedule].can_split
    if sequence_splits > 1 and has_parts and FULL in network.kinds:
        message = _(
            "full recomputation is left out, because sequences are in {parts} parts: the keys and values of a part are "
            "needed until the backwards of all later parts are done",
            parts=sequence_splits,
        )
        click.echo(_("note: {note}", note=message), err=True)
