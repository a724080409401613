"""Answers of a package: the cases of the standard input, built one by one, as JSON on the standard output."""

import json
import sys
from collections.abc import Callable
from typing import Any


def answer(build: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Build the cases; what the package refuses is a result too."""
    results: list[dict[str, Any]] = []
    for case in json.load(sys.stdin):
        try:
            results.append(build(case))
        except Exception as error:  # noqa: BLE001 - what a package refuses is a result
            results.append({"error": f"{type(error).__name__}: {error}"[:300]})
    json.dump(results, sys.stdout)
