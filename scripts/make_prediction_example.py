"""Write what the example of `evenflow predict` prints, into docs/predict.md.

Run it with ``make prediction-example``.
"""

import shlex
from pathlib import Path
from tempfile import TemporaryDirectory

from click.testing import CliRunner

from evenflow.cli.main import main

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- example -->\n", "<!-- /example -->\n"
COMMAND = (
    "evenflow predict --model examples/configs/llama3_70b.json --accelerator h100 --gpus 64 --tensor 8 --pipeline 4 "
    "--chunks 5 --global-batch 128 --seq 8192 -o layers.json"
)
PAGE = "docs/predict.md"


def output() -> str:
    """Return what the command prints."""
    with TemporaryDirectory() as folder:
        config, layers = ROOT / "examples" / "configs" / "llama3_70b.json", Path(folder) / "layers.json"
        paths = {"examples/configs/llama3_70b.json": str(config), "layers.json": str(layers)}
        words = [paths.get(word, word) for word in shlex.split(COMMAND)]
        result = CliRunner().invoke(main, ["--lang", "en", *words[1:]])
        assert result.exit_code == 0, result.output
        return result.stdout.replace(str(layers), "layers.json")


def page(printed: str) -> str:
    """Return the page with the output as it must be."""
    before, _, rest = (ROOT / PAGE).read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n```text\n{printed.strip()}\n```\n\n{END}{after}"


if __name__ == "__main__":
    (ROOT / PAGE).write_text(page(output()), encoding="utf-8")
