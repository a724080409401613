"""A plan of the command line, as its file and as what the command printed."""

import json
from typing import Any


def planned_file(evenflow, folder, model, *options) -> tuple[dict[str, Any], Any]:
    """Plan a model and return the plan file and the result, which must be a plan."""
    result = evenflow("plan", model, *options, "--json", "plan.json", "--overwrite")
    assert result.exit_code == 0, result.stderr
    return json.loads((folder / "plan.json").read_text()), result
