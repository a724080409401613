"""The model that a verb plans: of a layer file, of a plan file, which also says its sizes, or of a configuration."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import click

from evenflow.cli.shared.files.input_files import read_text
from evenflow.cli.shared.model_config import ModelConfig, config_of, config_path
from evenflow.cli.shared.options import SEARCH
from evenflow.errors import InputError
from evenflow.fields import as_fields, load_json
from evenflow.language import _
from evenflow.model import Communication, Network, Plan
from evenflow.profiles.layer_file import parse_layer_file
from evenflow.profiles.model_configuration import is_configuration
from evenflow.profiles.plan_degrees import MissingDegrees, PlannedDegrees
from evenflow.profiles.plan_file import PlanFile, parse_plan_file
from evenflow.schedule import FAMILIES, schedule_of

RequestType = TypeVar("RequestType", bound=Any)
_DECIDING = ("schedule", "chunks", "less_memory")
"""Options of which each decides the order of work: beside one of them, that of the plan file does not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenModel:
    """A network, the plan of it that is there already, and what holds where no option says otherwise."""

    network: Network
    planned: PlanFile | None = None
    """All of a plan file; None for a layer file or a configuration."""
    communication: Communication | None = None
    """Cost of a message that the file says or the accelerator has; None: not known, as for a layer file."""
    memory_limit_bytes: int | None = None
    """Memory of a rank that the file says or the accelerator has; None: no limit is known."""
    degrees: PlannedDegrees | MissingDegrees | None = None
    """How stages are split over devices; None for a layer file, which does not say it."""
    remarks: tuple[str, ...] = ()
    """What was assumed of a configuration, each a line for people."""

    def say_remarks(self) -> None:
        """Print what was assumed, beside the answer."""
        for remark in self.remarks:
            click.echo(remark, err=True)

    def completed(self, request: RequestType, *, written_out: Collection[str]) -> RequestType:
        """Return the request of a verb, with what the plan file says where no option is `written_out`.

        Raises:
            click.UsageError: sizes that neither the command line nor the file has.
        """
        if self.planned is not None:
            plan = self.planned.plan
            known: dict[str, Any] = {
                "ranks": plan.num_ranks,
                "microbatches": plan.num_microbatches,
                "sequence_splits": plan.sequence_splits,
            }
            if plan.order and request.target is None and request.applied_file is None:
                if not any(name in written_out for name in (*_DECIDING, "group_size")):
                    known |= _own_order(plan)
            elif not plan.order and not any(name in written_out for name in _DECIDING):
                known |= {"schedule": plan.schedule, "chunks": plan.num_chunks}
                if request.target is None and not {"ranks", "microbatches"} & set(written_out):
                    known["group_size"] = plan.group_size
            request = replace(request, **{name: value for name, value in known.items() if name not in written_out})
        for name in ("ranks", "microbatches"):
            if getattr(request, name) is None:
                raise click.UsageError(_("Missing option '{option}', or a plan file that says it", option=f"--{name}"))
        return request


def _own_order(plan: Plan) -> dict[str, Any]:
    """Return the options with which a plan with an order of its own is planned again, so that this order is known."""
    if plan.schedule in FAMILIES and FAMILIES[plan.schedule].patterns:
        return {"schedule": plan.schedule, "chunks": plan.num_chunks}
    splits = schedule_of(plan).splits_backward
    return {"schedule": SEARCH, "chunks": plan.num_chunks, "split_backward": splits}


ConfiguredModel = Callable[[ModelConfig], GivenModel]
"""Makes the model of a configuration, by the options of a command line."""


def read_model(path: str, configured: ConfiguredModel, *, only_configured: Collection[str] = ()) -> GivenModel:
    """Return the model in a file, told apart by what is in it; ``-`` is standard input.

    `only_configured` are options of the command line that mean nothing but for a configuration, which `configured`
    reads; a configuration may also be the folder that has it as ``config.json``.

    Raises:
        InputError: a file that is none of these, a plan file that does not hold its model, or an option that does not
            go with the file.
    """
    path = config_path(path)
    text, place = read_text(path)
    fields = as_fields(load_json(text, file=place), file=place)
    if is_configuration(fields):
        return configured(config_of(fields, path))
    refuse_without_configuration(only_configured, place=place)
    if "layers" not in fields or "layers_description" in fields:
        return GivenModel(network=parse_layer_file(text, place=place))
    planned = parse_plan_file(text, place=place)
    if planned.network is None:
        raise InputError(
            rule=_("must hold its model, as 'network'"),
            place=place,
            remedy=_("name the layer file instead"),
        )
    return GivenModel(
        network=planned.network,
        planned=planned,
        communication=planned.communication,
        memory_limit_bytes=planned.memory_limit_bytes,
        degrees=planned.degrees,
    )


def refuse_without_configuration(only_configured: Collection[str], *, place: str) -> None:
    """Raise InputError for the first of some options that go with a configuration only, beside the file `place`."""
    for option in only_configured:
        raise InputError(
            rule=_("must come with the configuration of a model; {file} has its times and memory already", file=place),
            place=option,
            remedy=_("leave it out"),
        )
