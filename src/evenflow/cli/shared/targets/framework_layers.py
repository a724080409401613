"""A model in the layers that a framework counts: whole blocks, where it has no cut inside of them."""

from dataclasses import replace

import click

from evenflow.cli.shared.files.given_model import GivenModel
from evenflow.language import _
from evenflow.model import Plan, whole_blocks_of
from evenflow.targets.target import Target
from evenflow.targets.whole_blocks import in_whole_blocks


def in_layers_of(model: GivenModel, target: Target, version: str) -> GivenModel:
    """Return the model as `version` of a framework counts its layers, and say where that is by whole blocks.

    A plan of the model that parts a block is left out.
    """
    blocks = None if target.abilities(version).parts_blocks else whole_blocks_of(model.network)
    if blocks is None:
        return model
    note = _(
        "note: {title} has no cut inside a block: {parts} layers are planned as {count} whole blocks",
        title=target.title,
        parts=model.network.num_layers,
        count=blocks.network.num_layers,
    )
    click.echo(note, err=True)
    planned = model.planned
    if planned is not None:
        plan: Plan | None = in_whole_blocks(planned.plan, blocks)
        planned = None if plan is None else replace(planned, plan=plan, network=blocks.network)
    return replace(model, network=blocks.network, planned=planned)
