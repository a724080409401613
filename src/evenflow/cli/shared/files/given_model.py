"""The model that a verb plans: of a layer file, of a plan file, which also says its sizes, or of a configuration."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import click

from evenflow.cli.missing import missing_options
from evenflow.cli.shared.defaults import typed_of, without_defaults
from evenflow.cli.shared.files.input_files import read_text
from evenflow.cli.shared.model_config import ModelConfig, config_of, config_path
from evenflow.cli.shared.options import SEARCH
from evenflow.errors import InputError
from evenflow.fields import Fields, as_fields, load_json
from evenflow.language import _
from evenflow.model import SELECT_OR_COMM, Communication, Network, Plan
from evenflow.profiles.layer_file import parse_layer_file
from evenflow.profiles.model_configuration import is_configuration
from evenflow.profiles.plan_degrees import MissingDegrees, PlannedDegrees
from evenflow.profiles.plan_file import PlanFile, parse_plan_file
from evenflow.schedule import FAMILIES, schedule_of
from evenflow.targets.target import Target

RequestType = TypeVar("RequestType", bound=Any)
SIZES_OF_PLANS = ("ranks", "microbatches", "chunks", "schedule", "less_memory", "group_size", "sequence_splits")
MESSAGES_OF_PLANS = (
    *("p2p_latency", "p2p_bandwidth", "boundary", "p2p_latency_us", "p2p_bandwidth_gbps", "boundary_mb"),
    "p2p_exclusive",
)
SAID_BY_PLANS = (*SIZES_OF_PLANS, *MESSAGES_OF_PLANS, "memory")
"""Options that a plan file answers: no default of the user's file stands in its way."""
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
    extrapolation: Mapping[str, object] = field(default_factory=dict)
    """Where its prediction goes beyond a calibration, as JSON has it; empty without a calibration."""

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
            request = without_defaults(request, SAID_BY_PLANS)
            known = _sizes_of(self.planned.plan) | _free_of(self.planned.plan, request, written_out)
            request = replace(request, **{name: value for name, value in known.items() if name not in written_out})
        sizes = {f"--{name}": getattr(request, name) for name in ("ranks", "microbatches")}
        if None in sizes.values():
            raise missing_options(sizes, elsewhere=_("a plan file"))
        return request


def _sizes_of(plan: Plan) -> dict[str, Any]:
    return {
        "ranks": plan.num_ranks,
        "microbatches": plan.num_microbatches,
        "sequence_splits": plan.sequence_splits,
    }


def _free_of(plan: Plan, request: Any, written_out: Collection[str]) -> dict[str, Any]:
    """Return the options that leave as much free as a plan takes up, so that it is one of those that may be found."""
    target: Target | None = request.target
    known: dict[str, Any] = {}
    if target is None and request.applied_file is None:
        known["mix"] = "any" if mixes_any(plan) else "mindformers"
    if any(name in written_out for name in _DECIDING):
        return known
    if not plan.order:
        known |= {"schedule": plan.schedule, "chunks": plan.num_chunks}
        if target is None and not {"ranks", "microbatches"} & set(written_out):
            known["group_size"] = plan.group_size
        return known
    version = "" if target is None else target.version(request.asked_version)
    runs_it = request.applied_file is None if target is None else target.abilities(version).own_order
    if not runs_it or "group_size" in written_out:
        return known
    known["chunks"] = plan.num_chunks
    if plan.schedule in FAMILIES and FAMILIES[plan.schedule].patterns and target is None:
        return known | {"schedule": plan.schedule}
    return known | {"schedule": SEARCH, "split_backward": schedule_of(plan).splits_backward}


def mixes_any(plan: Plan) -> bool:
    """Return whether cells mix kinds that MindFormers cannot."""
    (apart,) = SELECT_OR_COMM.apart
    tables = [plan.recompute.get(kind, ()) for kind in apart]
    return any(all(counts) for rows in zip(*tables, strict=False) for counts in zip(*rows, strict=True))


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
    if not _is_plan(fields):
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


def _is_plan(fields: Fields) -> bool:
    """Return whether an object is that of a plan file, whose `layers` are numbers and not entries of layers."""
    layers = fields.values.get("layers")
    has_entries = isinstance(layers, list) and any(isinstance(entry, dict) for entry in layers)
    return "layers" in fields and "layers_description" not in fields and not has_entries


def refuse_without_configuration(only_configured: Collection[str], *, place: str) -> None:
    """Raise InputError for the first of some options that go with a configuration only, beside the file `place`.

    Those that are defaults of the user's file are left aside, which is said.
    """
    for option in typed_of(only_configured):
        raise InputError(
            rule=_("must come with the configuration of a model; {file} has its times and memory already", file=place),
            place=option,
            remedy=_("leave it out"),
        )
