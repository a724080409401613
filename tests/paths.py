"""Folders of the repository that tests read."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
CONFIGS = ROOT / "cfgs"
GOLDEN = ROOT / "tests" / "golden"
