"""The questions of ``run_pipeline_balance.py`` without any flag: sizes, then head, body and tail. [SAPP-PPB]"""

import json
from dataclasses import dataclass, replace
from typing import Any

import click

from evenflow.cli.sapp.balancer_settings import INTERLEAVE, LIMIT_MB, STAGES, BalancerSettings
from evenflow.cli.sapp.terminal_questions import ask, ask_value, ask_yes, whole_number
from evenflow.cli.shared.numbers import as_number
from evenflow.errors import InputError, Interrupted
from evenflow.language import _, looked_up, to_translate
from evenflow.model import Network, Sizes
from evenflow.profiles.layer_file import parse_layer_file
from evenflow.ranges import MEGABYTES
from evenflow.schedule import default_family
from evenflow.units import parse_memory

SECONDS = 40.0
"""Time limit of a plan that was asked for in this way, as in the original."""
_MICROBATCHES = 8
_KINDS = {
    "memory_activation": to_translate("without recomputation"),
    "memory_select_rec": to_translate("under select recomputation"),
    "memory_select_comm": to_translate("under communication recomputation"),
    "memory_both_comm_select": to_translate("under both"),
    "memory_recompute": to_translate("under full recomputation"),
}
"""Words for the activation of a layer, by the key of the layer file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredModel:
    """The model and the settings that the user's answers describe."""

    network: Network
    settings: BalancerSettings


def ask_model() -> AnsweredModel | None:
    """Ask for the sizes and the model; None where the user does not want to be asked.

    Raises:
        Interrupted: the input ended, or Ctrl-C.
        InputError: sizes or a model that no pipeline can have.
    """
    try:
        if not ask_yes(_("No flags were given. Answer questions instead [y/n]? ")):
            return None
        settings = _ask_settings()
        name = ask(_("Name of the model, if you wish: ")) or "misc"
        layers = [_ask_layer(kind, name) for kind in ("HEAD", "BODY", "TAIL")]
    except click.Abort:
        raise Interrupted("\n" + _("interrupted: some questions were not answered")) from None
    text = json.dumps({"name": name, "layers_description": layers})
    return AnsweredModel(network=parse_layer_file(text, place=_("the answers")), settings=settings)


def _ask_settings() -> BalancerSettings:
    stages = ask_value(_("Pipeline stages ({stages} if none): ", stages=STAGES), _count, default=STAGES)
    microbatches = ask_value(
        _("Microbatches ({microbatches} if none): ", microbatches=_MICROBATCHES), _count, default=_MICROBATCHES
    )
    chunks = ask_value(
        _("Pipeline interleave ({interleave} if none): ", interleave=INTERLEAVE), _count, default=INTERLEAVE
    )
    limit = ask_value(
        _("Memory limit of a device in MB ({limit_mb} if none): ", limit_mb=LIMIT_MB),
        _memory,
        default=parse_memory(str(LIMIT_MB)),
    )
    return BalancerSettings(
        sizes=Sizes(num_ranks=stages, num_chunks=chunks, num_microbatches=microbatches),
        schedule=default_family(num_chunks=chunks),
        memory_limit_bytes=limit,
    )


def _ask_layer(kind: str, model_name: str) -> dict[str, object]:
    """Ask for one kind of layer, and return its entry of a layer file."""
    click.echo(
        {"HEAD": _("The head:"), "BODY": _("The body, which is one kind of layer:"), "TAIL": _("The tail:")}[kind]
    )
    is_body = kind == "BODY"
    entry: dict[str, object] = {
        "name": ask(_("  name, if you wish: ")) or f"{model_name}_{kind}",
        "type": kind,
        "time": ask_value(_("  forward time of a layer, ms: "), _above_zero)
        if is_body
        else ask_value(_("  forward time, ms (0 if none): "), _number, default=0.0),
        "nb_layer": 1,
    }
    if not is_body:
        return {**entry, "memory_parameter": ask_value(_("  memory, MB (0 if none): "), _number, default=0.0)}
    entry["nb_layer"] = ask_value(_("  number of layers (1 if none): "), _count, default=1)
    parameter = ask_value(_("  parameters of a layer, MB (0 if none): "), _number, default=0.0)
    memory = {
        key: ask_value(
            _("  activation of a layer {words}, MB, if you wish: ", words=looked_up(kept_when)), _number, default=0.0
        )
        for key, kept_when in _KINDS.items()
    }
    if not memory["memory_activation"]:
        click.echo(_("note: without the activation of a layer no memory limit is checked"), err=True)
        return entry
    return {**entry, "memory_parameter": parameter, **{key: size for key, size in memory.items() if size}}


def _count(answer: str) -> int:
    count = whole_number(answer)
    if not count:
        raise _wrong(answer, _("must be above zero"))
    return count


def _memory(answer: str) -> int:
    return parse_memory(answer, place=_("the answer"))


def _number(answer: str) -> float:
    within = replace(MEGABYTES, unit="")  # or milliseconds
    number: Any = as_number(answer, within)
    if number not in within:
        raise _wrong(answer, within.rule)
    return float(number)


def _above_zero(answer: str) -> float:
    number = _number(answer)
    if not number:
        raise _wrong(answer, _("must be above zero"))
    return number


def _wrong(answer: str, rule: str) -> InputError:
    return InputError(value=answer, rule=rule, place=_("the answer"))
