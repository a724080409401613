"""What evenflow's commands write as JSON."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

CONFIGS = Path(__file__).resolve().parents[1] / "examples" / "configs"
"""Configurations of models."""


def answer_of(*words: str) -> dict[str, Any]:
    """Call a command as a user does, and return its JSON."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        command = [sys.executable, "-m", "evenflow", *words, "--json", str(answer)]
        subprocess.run(command, check=True, capture_output=True, text=True)
        return dict(json.loads(answer.read_text(encoding="utf-8")))
