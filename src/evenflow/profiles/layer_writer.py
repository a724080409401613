"""A network as a layer file: the inverse of `evenflow.profiles.layer_file`."""

import json

from evenflow.model import NONE, EndBlock, Layer, LayerRun, Network
from evenflow.profiles.layer_entry import KIND_KEYS
from evenflow.units import megabytes, milliseconds


def format_layer_file(network: Network) -> str:
    """Return a layer file that reads back as `network`, as `layer_file_fields` says."""
    return json.dumps(layer_file_fields(network), indent=2, ensure_ascii=False) + "\n"


def layer_file_fields(network: Network) -> dict[str, object]:
    """Return the object of a layer file that reads back as `network`: times and memory explicit, no coefficients.

    The inverse holds where every kind's activation is above zero and no recompute time negative, as in every network
    that a layer file can give.
    """
    entries = [
        *([_end_entry("HEAD", network.head, network.has_memory)] if network.head != EndBlock() else []),
        *(_body_entry(run, network.has_memory) for run in network.runs),
        *([_end_entry("TAIL", network.tail, network.has_memory)] if network.tail != EndBlock() else []),
    ]
    top: dict[str, object] = {"name": network.name}
    if network.has_memory:
        top["stage_const_mem"] = megabytes(network.constant_bytes)
    return {**top, "layers_description": entries}


def _body_entry(run: LayerRun, has_memory: bool) -> dict[str, object]:
    layer = run.layer
    entry: dict[str, object] = {
        "name": layer.name,
        "type": "BODY",
        "nb_layer": run.count,
        "time": milliseconds(layer.forward_ns),
        "backward_time": milliseconds(layer.backward_ns),
        **_stated_time(layer),
    }
    if has_memory:
        entry["memory_parameter"] = megabytes(layer.parameter_bytes)
        entry["memory_activation"] = megabytes(layer.modes[NONE].activation_bytes)
        plain_working_bytes = layer.modes[NONE].working_bytes
        entry |= _stated_memory(layer, plain_working_bytes)
        named: dict[str, dict[str, float]] = {}
        for kind, mode in layer.modes.items():
            memory, time = megabytes(mode.activation_bytes), milliseconds(mode.backward_ns)
            differs = mode.working_bytes != plain_working_bytes
            if kind in KIND_KEYS:
                keys = KIND_KEYS[kind]
                entry |= {keys.memory: memory, keys.time: time}
                entry |= {keys.working: megabytes(mode.working_bytes)} if differs else {}
            elif kind != NONE:
                named[kind] = {"memory": memory, "time": time}
                named[kind] |= {"working": megabytes(mode.working_bytes)} if differs else {}
        if named:
            entry["recompute_kinds"] = named
    return entry


def _end_entry(type_name: str, block: EndBlock, has_memory: bool) -> dict[str, object]:
    entry: dict[str, object] = {
        "name": block.name or type_name,
        "type": type_name,
        "nb_layer": 1,
        "time": milliseconds(block.forward_ns),
        "backward_time": milliseconds(block.backward_ns),
        **_stated_time(block),
    }
    if has_memory:
        entry["memory_parameter"] = megabytes(block.parameter_bytes)
        entry["memory_activation"] = megabytes(block.activation_bytes)
        entry |= _stated_memory(block, block.working_bytes)
    return entry


def _stated_time(part: Layer | EndBlock) -> dict[str, object]:
    return {} if part.stated_weight_ns is None else {"weight_time": milliseconds(part.stated_weight_ns)}


def _stated_memory(part: Layer | EndBlock, working_bytes: int) -> dict[str, object]:
    working: dict[str, object] = {"memory_working": megabytes(working_bytes)} if working_bytes else {}
    if part.stated_until_weight_bytes is None:
        return working
    return {"memory_until_weight": megabytes(part.stated_until_weight_bytes), **working}
