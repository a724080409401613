"""Write what the example of `evenflow predict` prints, into docs/predict.md and the two READMEs.

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
PAGES = {"docs/predict.md": "en", "README.md": "en", "README.zh-CN.md": "zh"}
"""Pages, and the language of each."""
SHORT = (0, 1, 2, 4)
"""Paragraphs of a first page: the training, the step, the table of time, and the fullest rank."""


def output(language: str) -> str:
    """Return what the command prints in a language."""
    with TemporaryDirectory() as folder:
        config, layers = ROOT / "examples" / "configs" / "llama3_70b.json", Path(folder) / "layers.json"
        paths = {"examples/configs/llama3_70b.json": str(config), "layers.json": str(layers)}
        words = [paths.get(word, word) for word in shlex.split(COMMAND)]
        result = CliRunner().invoke(main, ["--lang", language, *words[1:]])
        assert result.exit_code == 0, result.output
        return result.stdout.replace(str(layers), "layers.json")


def page(name: str, printed: str) -> str:
    """Return the page with the output as it must be."""
    paragraphs = printed.strip().split("\n\n")
    if name.startswith("README"):
        paragraphs = [paragraphs[index] for index in SHORT]
    text = (ROOT / name).read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    shown = "\n\n".join(paragraphs)
    return f"{before}{BEGIN}\n```text\n{shown}\n```\n\n{END}{after}"


if __name__ == "__main__":
    for name, language in PAGES.items():
        (ROOT / name).write_text(page(name, output(language)), encoding="utf-8")
