"""Flags of Megatron-LM as keys of YAML, ``--num-layers: 12``, as its functional tests have them."""

import re

from evenflow.profiles.yaml_file import load_yaml, optional_section
from evenflow.targets.megatron_family.arguments import LISTS, OF_DEGREES, Arguments, arguments_of

_SECTION = "MODEL_ARGS"
_IS_FLAG_KEY = re.compile(r"^[ ]*--[a-z][\w-]*:(?:[ ]|$)", re.MULTILINE)


def has_flag_keys(text: str) -> bool:
    """Return whether a text has flags as keys of YAML."""
    return bool(_IS_FLAG_KEY.search(text))


def flag_key_arguments(text: str, file: str) -> Arguments:
    """Return the arguments of the section ``MODEL_ARGS``, or of the whole file where it has none.

    Raises:
        InputError: text that is not YAML, or whose section is no object.
    """
    top = load_yaml(text.removeprefix("\ufeff"), file=file)
    fields = optional_section(top, _SECTION) if _SECTION in top else top
    values = {_name(key): _value(_name(key), value) for key, value in fields.values.items() if key.startswith("--")}
    lines = {_name(key): line for key, line in fields.lines.items()}
    return arguments_of(values, file=file, lines=lines, known=OF_DEGREES)


def _name(key: str) -> str:
    return key.removeprefix("--").replace("-", "_")


def _value(name: str, value: object) -> object:
    """Return the value of a flag; a list of words is a text, which may stand in brackets. [`_run_training.sh`]

    >>> _value("recompute_modules", "[layernorm moe_act]"), _value("num_layers", 12)
    (['layernorm', 'moe_act'], 12)
    """
    if name not in LISTS or not isinstance(value, str):
        return value
    return (value[1:-1] if value.startswith("[") and value.endswith("]") else value).split()
