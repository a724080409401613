"""Fields as the text of a JSON file."""

import json
import math
from collections.abc import Mapping


def format_object(fields: Mapping[str, object]) -> str:
    """Return a JSON object, one field on each line."""
    lines = [f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in fields.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def finite(value: float) -> float | None:
    """Return `value`, or None for NaN and infinity, which JSON does not have."""
    return value if math.isfinite(value) else None
