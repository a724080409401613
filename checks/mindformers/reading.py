"""What MindFormers makes of written files: a script of this folder reads them in the environment that has it."""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

HERE = Path(__file__).resolve().parent
with_python = click.option(
    "--python",
    type=click.Path(exists=True, path_type=Path),
    required=True,
    help="The interpreter of the environment that has mindformers.",
)


def read_by_mindformers(python: Path, script: str, folder: Path, names: Iterable[str]) -> dict[str, Any]:
    """Let `script` read the files of `folder`; return for each name what it wrote into NAME.seen.json.

    Ends the check where the package cannot be run.
    """
    run = subprocess.run(
        [python.absolute(), HERE / script, folder], cwd=folder, capture_output=True, text=True, check=False
    )
    if run.returncode:
        sys.exit(f"MindFormers could not be run:\n{run.stdout[-2000:]}{run.stderr[-4000:]}")
    return {name: json.loads((folder / f"{name}.seen.json").read_text("utf-8")) for name in names}
