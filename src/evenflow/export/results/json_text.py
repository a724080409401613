"""Fields as the text of a JSON file, which is in English whatever is spoken: programs read it."""

import json
import math
from collections.abc import Mapping

from evenflow.language import english

MARK = "written_by"
"""Key of the mark that a file of evenflow ends with."""


def format_object(fields: Mapping[str, object]) -> str:
    """Return a JSON object, one field on each line."""
    lines = [
        f"  {json.dumps(key)}: {json.dumps(_in_english(value), ensure_ascii=False)}" for key, value in fields.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def finite(value: float) -> float | None:
    """Return `value`, or None for NaN and infinity, which JSON does not have."""
    return value if math.isfinite(value) else None


def _in_english(value: object) -> object:
    """Return a value with its messages in English; they may have been made while another language was spoken."""
    if isinstance(value, str):
        return english(value)
    if isinstance(value, Mapping):
        return {key: _in_english(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_in_english(inner) for inner in value]
    return value
