"""The plan file: reads back the plan in what ``--json`` wrote, with the network that it is of."""

from dataclasses import dataclass
from pathlib import Path

from evenflow.fields import Fields, as_fields, load_json
from evenflow.language import _
from evenflow.model import (
    Cells,
    Communication,
    HostLink,
    MovedGroups,
    MovedShare,
    Network,
    Plan,
    cells,
    with_moved_share,
)
from evenflow.predict.training import moved_chain
from evenflow.profiles.layer_file import network_of
from evenflow.profiles.model_configuration import refuse_configuration
from evenflow.profiles.plan_degrees import MissingDegrees, PlannedDegrees, read_degrees
from evenflow.profiles.report_file import read_plan_text
from evenflow.ranges import (
    BYTES_PER_S,
    CHUNKS,
    LAYERS,
    MEGABYTES,
    MEMORY_BYTES,
    MICROBATCHES,
    MILLISECONDS,
    PART,
    RANKS,
    SEQUENCE_SPLITS,
    Range,
)
from evenflow.schedule import schedule_of
from evenflow.units import bytes_from_megabytes, nanoseconds_from_milliseconds

_COUNT = Range(least=0, most=LAYERS.most)
"""Layers of one cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile:
    """All of a plan file that says what was planned for which model."""

    plan: Plan
    network: Network | None
    """None for a file of a version that did not write it."""
    communication: Communication | None
    """Cost of one transfer between ranks; None: transfers take no time."""
    memory_limit_bytes: int | None
    """Bytes that no rank may exceed; None where the plan has no limit."""
    degrees: PlannedDegrees | MissingDegrees | None = None
    """What stages of several devices do, or why they differ; None for a pipeline of single devices."""


def read_plan_file(path: Path | str) -> Plan:
    """Return the plan in a file that ``evenflow plan --json`` wrote, or that has the same fields, or in a report."""
    text, place = read_plan_text(path)
    return parse_plan(text, place=place)


def parse_plan(text: str, *, place: str) -> Plan:
    """Return the plan in the text of a plan file; `place` names the file in messages.

    Only what makes the plan is read: `layers` and `recompute` (``[chunk][rank]``, exclusive counts), `ranks`,
    `chunks`, `microbatches`, `schedule`, `sequence_splits`, `group_size` where it is not the usual one, `mtp_layers`,
    `encoder_layers` and `continuing_layers` where there are some, `moved_share` where counts come from one,
    `delays_weights` and `releases_attention` where forwards run beside backwards, and `order` where the plan has its
    own. Other fields are ignored. A kind that no layer has is left out of `Plan.recompute`.

    Raises:
        InputError: text that is not JSON, or a field that is missing, of a wrong type or against the others.
    """
    return _plan(as_fields(load_json(text, file=place), file=place))


def parse_plan_file(text: str, *, place: str) -> PlanFile:
    """Return all of the text of a plan file that says what was planned; `place` names the file.

    Raises:
        InputError: as `parse_plan` and `evenflow.profiles.layer_file.network_of` do.
    """
    fields = as_fields(load_json(text, file=place), file=place)
    plan = _plan(fields)
    network = network_of(fields.inner("network")) if "network" in fields else None
    _check_share(fields, plan, network)
    return PlanFile(
        plan=plan,
        network=network,
        communication=_communication(fields),
        memory_limit_bytes=_memory_limit(fields),
        degrees=read_degrees(fields),
    )


def _plan(fields: Fields) -> Plan:
    refuse_configuration(fields)
    if fields.values.get("layers", True) is None:
        status = fields.text("status") if "status" in fields else "?"
        rule = _("must be the layers of a plan, but there is none: the status is {status!r}", status=status)
        raise fields.error("layers", rule, remedy=_("write a plan that fits first"))
    layers = _table(fields, "layers")
    for key, within, count in (("chunks", CHUNKS, len(layers)), ("ranks", RANKS, len(layers[0]) if layers else 0)):
        if fields.integer(key, within) != count:
            raise fields.error(key, _("must be {count}, as many as 'layers' has", count=count))
    recompute = fields.inner("recompute")
    tables = {kind: _table(recompute, kind) for kind in recompute.values}
    schedule = fields.text("schedule")
    num_microbatches = fields.integer("microbatches", MICROBATCHES)
    sequence_splits = fields.integer("sequence_splits", SEQUENCE_SPLITS)
    group_size = fields.integer("group_size", MICROBATCHES) if "group_size" in fields else None
    mtp_layers = fields.integer("mtp_layers", _COUNT) if "mtp_layers" in fields else 0
    encoder_layers = fields.integer("encoder_layers", _COUNT) if "encoder_layers" in fields else 0
    continuing_layers = fields.integer("continuing_layers", _COUNT) if "continuing_layers" in fields else 0
    encodes_apart = fields.flag("encodes_apart") if "encodes_apart" in fields else False
    delays_weights = fields.flag("delays_weights") if "delays_weights" in fields else None
    releases_attention = fields.flag("releases_attention") if "releases_attention" in fields else False
    moved_share = _moved_share(fields)
    order = fields.texts("order") if "order" in fields else ()
    with fields.at():
        return Plan(
            schedule=schedule,
            num_microbatches=num_microbatches,
            layers=layers,
            recompute={kind: table for kind, table in tables.items() if any(map(any, table))},
            sequence_splits=sequence_splits,
            group_size=group_size,
            mtp_layers=mtp_layers,
            encoder_layers=encoder_layers,
            encodes_apart=encodes_apart,
            continuing_layers=continuing_layers,
            moved_share=moved_share,
            delays_weights=delays_weights,
            releases_attention=releases_attention,
            order=order,
        )


def _moved_share(fields: Fields) -> MovedShare | None:
    if "moved_share" not in fields:
        return None
    of_share = fields.inner("moved_share")
    kind = of_share.text("kind")
    if not moved_chain(kind):
        raise of_share.error("kind", _("must be a set of modules of which some move to the host"))
    kept_bytes = of_share.integer("kept_bytes", MEMORY_BYTES) if "kept_bytes" in of_share else 0
    return MovedShare(kind=kind, share=of_share.number("share", PART), kept_bytes=kept_bytes)


def _check_share(fields: Fields, plan: Plan, network: Network | None) -> None:
    """Raise InputError where the share of a plan makes other counts of its network."""
    if plan.moved_share is None or network is None or plan.num_layers != network.num_layers:
        return
    groups = MovedGroups.of(network, moved_chain(plan.moved_share.kind))
    if groups is None:
        rule = _("must have all kinds up to {kind}, of whose modules a share moves", kind=plan.moved_share.kind)
        raise fields.inner("network").error("layers", rule)
    if with_moved_share(plan, groups, schedule_of(plan).stage_table).recompute != plan.recompute:
        raise fields.error("recompute", _("must have the counts that the share of 'moved_share' makes"))


def parse_memory_limit(text: str, *, place: str) -> int | None:
    """Return the bytes that no rank may exceed by the text of a plan file; None where the plan has no limit.

    Raises:
        InputError: text that is not JSON, or a limit that is no number above zero.
    """
    return _memory_limit(as_fields(load_json(text, file=place), file=place))


def parse_frozen_layers(text: str, *, place: str) -> int:
    """Return how many first layers are not trained by the network in the text of a plan file; 0 where it has none.

    Raises:
        InputError: text that is not JSON, or as `evenflow.profiles.layer_file.network_of` does.
    """
    network = _network_in(text, place=place)
    return 0 if network is None else network.frozen_layers


def parse_adapter_rank(text: str, *, place: str) -> int:
    """Return the width of adapters that are trained alone by the network in the text of a plan file; 0 without any.

    Raises:
        InputError: as `parse_frozen_layers` does.
    """
    network = _network_in(text, place=place)
    return 0 if network is None else network.adapter_rank


def _network_in(text: str, *, place: str) -> Network | None:
    fields = as_fields(load_json(text, file=place), file=place)
    return network_of(fields.inner("network")) if "network" in fields else None


def read_host_link(path: Path | str) -> HostLink | None:
    """Return when what layers keep on the host moves, by the network in a plan file or report; None where none does."""
    text, place = read_plan_text(path)
    return parse_host_link(text, place=place)


def parse_host_link(text: str, *, place: str) -> HostLink | None:
    """Return the link to the host of the network in the text of a plan file; None where it has none.

    Raises:
        InputError: text that is not JSON, or as `evenflow.profiles.layer_file.network_of` does.
    """
    network = _network_in(text, place=place)
    return None if network is None else network.host_link


def _memory_limit(fields: Fields) -> int | None:
    if fields.values.get("memory_limit_mb") is None:
        return None
    return bytes_from_megabytes(fields.number("memory_limit_mb", MEGABYTES, above_zero=True))


def _communication(fields: Fields) -> Communication | None:
    if fields.values.get("communication") is None:
        return None
    messages = fields.inner("communication")
    return Communication(
        latency_ns=nanoseconds_from_milliseconds(messages.number("latency_ms", MILLISECONDS)),
        transfer_ns=nanoseconds_from_milliseconds(messages.number("transfer_ms", MILLISECONDS)),
        bytes_per_s=None
        if messages.values.get("bytes_per_s") is None
        else messages.integer("bytes_per_s", BYTES_PER_S),
        one_at_a_time=messages.flag("one_at_a_time") if "one_at_a_time" in messages else False,
    )


def _table(fields: Fields, key: str) -> Cells:
    """Return a table ``[chunk][rank]``."""
    return cells(fields.rows(key, _COUNT))
