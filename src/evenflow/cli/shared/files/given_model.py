"""The model that a verb is given: a layer file, or a plan file, which also says what to plan it for."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import click

from evenflow.cli.shared.files.input_files import read_text
from evenflow.errors import InputError
from evenflow.fields import as_fields, load_json
from evenflow.language import _
from evenflow.model import Network
from evenflow.profiles.layer_file import parse_layer_file
from evenflow.profiles.plan_file import PlanFile, parse_plan_file

_DECIDING = ("schedule", "chunks", "less_memory")
"""Options of which each decides the order of work: beside one of them, that of the plan file does not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenModel:
    """A network, and the plan of it that is there already."""

    network: Network
    planned: PlanFile | None = None
    """All of a plan file; None for a layer file."""

    def completed(self, keywords: Mapping[str, Any], *, given: Collection[str]) -> dict[str, Any]:
        """Return the options, of which those `given` were written out; the others are those of the plan file.

        Raises:
            click.UsageError: sizes that neither the command line nor the file has.
        """
        options = dict(keywords)
        if self.planned is not None:
            plan = self.planned.plan
            known: dict[str, Any] = {
                "ranks": plan.num_ranks,
                "microbatches": plan.num_microbatches,
                "sequence_splits": plan.sequence_splits,
            }
            if not plan.order and not any(name in given for name in _DECIDING):
                known |= {"schedule": plan.schedule, "chunks": plan.num_chunks}
                if options["target"] is None and not {"ranks", "microbatches"} & set(given):
                    known["group_size"] = plan.group_size
            options |= {name: value for name, value in known.items() if name not in given}
        for name in ("ranks", "microbatches"):
            if options[name] is None:
                raise click.UsageError(_("Missing option '{option}', or a plan file that says it", option=f"--{name}"))
        return options


def read_model(path: str) -> GivenModel:
    """Return the model in a file, told apart by what is in it; ``-`` is standard input.

    Raises:
        InputError: a file that is neither, or a plan file that does not hold its model.
    """
    text, place = read_text(path)
    fields = as_fields(load_json(text, file=place), file=place)
    if "layers" not in fields or "layers_description" in fields:
        return GivenModel(network=parse_layer_file(text, place=place))
    planned = parse_plan_file(text, place=place)
    if planned.network is None:
        raise InputError(
            value=None,
            rule=_("must hold its model, as 'network'"),
            place=place,
            remedy=_("name the layer file instead"),
        )
    return GivenModel(network=planned.network, planned=planned)
