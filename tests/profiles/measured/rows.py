"""Published runs that tests make."""

import csv
from io import StringIO

from evenflow.profiles.measured.reading import COLUMNS, parse_runs
from evenflow.profiles.measured.run import MeasuredRun

PLAIN = {
    "id": "a", "source": "lab", "ref": "paper, line 1", "hardware": "h100", "gpus": "8", "gpus_per_node": "8",
    "model": "small", "hidden": "4096", "ffn": "16384", "layers": "32", "heads": "32", "kv_heads": "32",
    "head_dim": "128", "vocab": "50257", "seq": "2048", "gated_mlp": "0", "tied_embeddings": "1", "precision": "bf16",
    "tp": "2", "cp": "1", "ep": "1", "dp": "2", "pp": "2", "vpp": "1", "sequence_parallel": "1", "zero": "distopt",
    "mbs": "1", "gbs": "16", "microbatches": "8", "schedule": "1f1b", "recompute": "none", "step_s": "1.5",
}  # fmt: skip
"""A row in which everything is stated."""


def csv_text(*rows: dict[str, str], columns: tuple[str, ...] = COLUMNS) -> str:
    """A CSV file with `PLAIN`, changed as each of `rows` says."""
    file = StringIO()
    writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(PLAIN | row for row in rows)
    return file.getvalue()


def make_run(**cells: str) -> MeasuredRun:
    """The run of `PLAIN`, changed as `cells` say."""
    return parse_runs(csv_text(cells), file="file.csv")[0]
