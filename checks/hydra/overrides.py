"""Read overrides with Hydra itself. Runs in an environment of its own, without evenflow.

Reads a JSON list of lists of overrides from stdin, one list for each plan; writes for each an object of values by key,
or the message of the error.
"""

import json
import sys

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException


def read(words: list[str]) -> object:
    """Return the values of overrides by key; the message where Hydra refuses one."""
    parser = OverridesParser.create()
    try:
        overrides = parser.parse_overrides(words)
    except HydraException as error:
        return str(error)
    return {override.key_or_group: override.value() for override in overrides}


if __name__ == "__main__":
    json.dump([read(words) for words in json.load(sys.stdin)], sys.stdout)
