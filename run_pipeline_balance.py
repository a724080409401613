#!/usr/bin/env python3
"""The SAPP pipeline balancer's command on top of evenflow; see ``python run_pipeline_balance.py --help``."""

import os
import sys
from pathlib import Path

ENVIRONMENT = Path(__file__).resolve().parent / ".venv"


def run() -> None:
    """Run the command here, or in the environment that ``make setup`` made beside this file."""
    try:
        from evenflow.interruption import watch

        watch()  # before anything large is imported
        from evenflow.cli.sapp.command import main
    except ImportError as error:
        python = ENVIRONMENT / "bin" / "python"
        if python.exists() and Path(sys.prefix).resolve() != ENVIRONMENT:
            sys.stdout.flush()
            os.execv(python, [str(python), *sys.argv])
        sys.exit(_not_installed(error))
    main()


def _not_installed(error: ImportError) -> int:
    sys.stderr.write(
        f"error: this python cannot import evenflow ({error}); run 'make setup' once in "
        f"{ENVIRONMENT.parent}, or 'python -m pip install {ENVIRONMENT.parent}'\n"
    )
    return 2


if __name__ == "__main__":
    run()
