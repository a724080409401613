"""An accelerator in a file, YAML or JSON (by the ending ``.json``).

name: my-cluster              optional; else the name of the file
base: h100                    optional: a known accelerator, of which the file says what differs
source: our own measurements  optional
generation: Hopper            optional: what is reached without `reached`, and how far off predictions are
flops: {bf16: 989TFLOPS, fp8: 1979TFLOPS}
memory: 80GB                  of one device
memory_bandwidth: 3350GBps
link: {bandwidth: 450GBps, devices: 8, switch_reduces: true}
network: {bandwidth: 50GBps, cards_per_node: 8}
reached: {product_share: 0.71, standard_errors: {product_share: 0.01}}
calibration: {runs: 12, files: [runs.csv], step_error: 0.03}

Bandwidths are those of one device in one direction; that of the network is one card's where `cards_per_node` says how
many cards the devices of a node share.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.data_sheets import accelerator_named
from evenflow.cluster.generations import GENERATIONS
from evenflow.cluster.reached import PARAMETERS, Reached
from evenflow.fields import Fields, check_one_of, read_text
from evenflow.language import _
from evenflow.profiles.calibration_record import PARAMETER, calibration_record, calibration_record_fields
from evenflow.profiles.yaml_file import load_object, section
from evenflow.profiles.yaml_text import block_text
from evenflow.ranges import DEVICES
from evenflow.units import format_bandwidth, format_flops, format_memory, parse_bandwidth, parse_flops, parse_memory

RATES: Mapping[str, str] = {
    "fp32": "float32",
    "tf32": "tfloat32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp8": "float8",
    "fp4": "float4",
}
"""Number formats by their names in a file, from wide to narrow."""
_FIELDS = (
    "name", "base", "source", "generation", "flops", "memory", "memory_bandwidth", "link", "network", "reached",
    "calibration", "written_by",
)  # fmt: skip
_NODE_DEVICES = 8
"""Devices of a fast domain where neither the file nor its base says how many."""
_ENDINGS = (".yaml", ".yml", ".json")


def accelerator_given(text: str, *, place: str = "accelerator") -> Accelerator:
    """Return the accelerator that a user names: one that is known, or a file that ends in .yaml, .yml or .json.

    `place` is what messages about a name call its place.

    Raises:
        InputError: an unknown name, or a file as `parse_accelerator_file` refuses it.
    """
    path = accelerator_path(text)
    return accelerator_named(text, place=place) if path is None else read_accelerator_file(path)


def accelerator_path(text: str | None) -> Path | None:
    """Return the file that a user names as an accelerator; None for a name, and for nothing."""
    return Path(text) if text is not None and text.lower().endswith(_ENDINGS) else None


def read_accelerator_file(path: Path | str) -> Accelerator:
    """Return the accelerator in a file; raises `InputError` as `parse_accelerator_file` does."""
    return parse_accelerator_file(read_text(path), place=str(path))


def parse_accelerator_file(text: str, *, place: str) -> Accelerator:
    """Return the accelerator in the text of a file; `place` names the file in messages and tells JSON from YAML.

    Raises:
        InputError: a field that is unknown, of a wrong form, or missing where there is no `base`.
    """
    fields = load_object(text, file=place)
    fields.check_known(_FIELDS)
    base = _base(fields)
    generation = base.generation if base else ""
    if "generation" in fields:
        generation = fields.text("generation")
        check_one_of(generation, GENERATIONS, place=fields.place("generation"), suggests=True)
    rates = _rates(fields, base)
    link, link_devices, switch_reduces = _link(fields, base)
    memory, bandwidth = "memory", "memory_bandwidth"
    return Accelerator(
        name=fields.text("name") if "name" in fields else Path(place).stem,
        source=fields.text("source") if "source" in fields else base.source if base else "",
        flops_per_s=rates["float32"],
        flops_per_s_of=rates,
        memory_bytes=(
            base.memory_bytes
            if base and memory not in fields
            else parse_memory(fields.quantity(memory), place=fields.place(memory))
        ),
        memory_bytes_per_s=base.memory_bytes_per_s if base and bandwidth not in fields else _rate(fields, bandwidth),
        link_bytes_per_s=link,
        link_devices=link_devices,
        switch_reduces=switch_reduces,
        network_bytes_per_s=_network(fields, base, link_devices),
        generation=generation,
        reached=_reached(fields, base.reached if base and "generation" not in fields else GENERATIONS.get(generation)),
        calibration=calibration_record(fields) if "calibration" in fields else None,
    )


def _base(fields: Fields) -> Accelerator | None:
    if "base" not in fields:
        return None
    with fields.at("base"):
        return accelerator_named(fields.text("base"))


def _rate(fields: Fields, key: str) -> float:
    return float(parse_bandwidth(fields.quantity(key), place=fields.place(key)))


def _rates(fields: Fields, base: Accelerator | None) -> dict[str, float]:
    """Return the rates by format: those of the file, those of `base`, else that of the next wider format."""
    if base and "flops" not in fields:
        return dict(base.flops_per_s_of)
    written = section(fields, "flops")
    written.check_known(RATES)
    if not written.values:
        raise fields.error("flops", _("must have the rate of a number format"))
    stated = {RATES[key]: parse_flops(written.quantity(key), place=written.place(key)) for key in written.values}
    rates = {**base.flops_per_s_of, **stated} if base else stated
    wider = rates.get("float32", min(rates.values()))
    complete = {}
    for dtype in RATES.values():
        wider = complete[dtype] = rates.get(dtype, wider)
    if "bfloat16" not in rates:
        complete["bfloat16"] = complete["float16"]
    return complete


def _link(fields: Fields, base: Accelerator | None) -> tuple[float, int, bool]:
    """Return the bandwidth between the devices of a fast domain, how many these are, and whether a switch adds up."""
    if base and "link" not in fields:
        return base.link_bytes_per_s, base.link_devices, base.switch_reduces
    link = section(fields, "link")
    link.check_known(("bandwidth", "devices", "switch_reduces"))
    devices = base.link_devices if base else _NODE_DEVICES
    return (
        base.link_bytes_per_s if base and "bandwidth" not in link else _rate(link, "bandwidth"),
        link.integer("devices", DEVICES) if "devices" in link else devices,
        base.switch_reduces if base and "switch_reduces" not in link else link.flag("switch_reduces"),
    )


def _network(fields: Fields, base: Accelerator | None, link_devices: int) -> float:
    """Return a device's bandwidth to other domains: its share of the network cards of its node."""
    if base and "network" not in fields:
        return base.network_bytes_per_s
    network = section(fields, "network")
    network.check_known(("bandwidth", "cards_per_node", "devices_per_node"))
    return float(max(1, round(_rate(network, "bandwidth") * card_share(network, link_devices))))


def card_share(network: Fields, devices: int) -> float:
    """Return the share of a network card that each device has: a whole one, unless `cards_per_node` says otherwise.

    `devices` are those of a node that does not say how many it has.
    """
    if "cards_per_node" not in network:
        if "devices_per_node" in network:
            raise network.error(
                "devices_per_node", _("must be given together with cards_per_node, the number of cards that they share")
            )
        return 1.0
    devices = network.integer("devices_per_node", DEVICES) if "devices_per_node" in network else devices
    return network.integer("cards_per_node", DEVICES) / devices


def _reached(fields: Fields, known: Reached | None) -> Reached:
    known = known or Reached()
    if "reached" not in fields:
        return known
    shares = section(fields, "reached")
    shares.check_known((*PARAMETERS, "standard_errors"))
    values = {name: float(shares.number(name, PARAMETER)) for name in PARAMETERS if name in shares}
    errors: dict[str, float] = {}
    if "standard_errors" in shares:
        stated = section(shares, "standard_errors")
        stated.check_known(PARAMETERS)
        errors = {name: float(stated.number(name, PARAMETER)) for name in PARAMETERS if name in stated}
    with shares.at():
        return Reached(**{**{name: getattr(known, name) for name in PARAMETERS}, **values}, standard_errors=errors)


def format_accelerator_file(accelerator: Accelerator, *, is_json: bool = False) -> str:
    """Return a file that reads back as `accelerator`, which comes from a data sheet or from a file."""
    fields = _accelerator_fields(accelerator)
    if is_json:
        return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"
    return block_text(fields)


def _accelerator_fields(accelerator: Accelerator) -> dict[str, object]:
    """Return the fields of that file: every rate is stated, so that nothing changes with what is known by a name."""
    fields: dict[str, object] = {"name": accelerator.name}
    if accelerator.source:
        fields["source"] = accelerator.source
    if accelerator.generation:
        fields["generation"] = accelerator.generation
    fields |= {
        "flops": {key: format_flops(accelerator.rate(dtype)) for key, dtype in RATES.items()},
        "memory": format_memory(accelerator.memory_bytes),
        "memory_bandwidth": format_bandwidth(accelerator.memory_bytes_per_s),
        "link": {
            "bandwidth": format_bandwidth(accelerator.link_bytes_per_s),
            "devices": accelerator.link_devices,
            "switch_reduces": accelerator.switch_reduces,
        },
        "network": {"bandwidth": format_bandwidth(accelerator.network_bytes_per_s)},
        "reached": _reached_fields(accelerator.reached),
    }
    if accelerator.calibration is not None:
        fields["calibration"] = calibration_record_fields(accelerator.calibration)
    return fields


def _reached_fields(reached: Reached) -> dict[str, object]:
    fields: dict[str, object] = {name: float(getattr(reached, name)) for name in PARAMETERS}
    errors = {name: float(reached.standard_errors[name]) for name in PARAMETERS if name in reached.standard_errors}
    return {**fields, "standard_errors": errors} if errors else fields
