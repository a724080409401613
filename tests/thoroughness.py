"""How many examples property tests draw: others each time, and thrice as many in ``make test-thorough``."""

import os

IS_THOROUGH = os.environ.get("EVENFLOW_THOROUGH") == "1"
"""Set by ``make test-thorough``."""
_FEWEST = 5


def examples(count: int) -> int:
    """Return how many of `count` examples are drawn in this run."""
    return count if IS_THOROUGH else min(count, max(_FEWEST, count // 3))
